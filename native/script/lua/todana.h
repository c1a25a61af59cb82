/*
** Todana's additions to Lua 5.1.5: work is counted, results do not depend on
** addresses, locales or seeds, and a script that must end cannot catch that.
** README.md lists the changes.
*/

#ifndef todana_h
#define todana_h

#include <stddef.h>

struct lua_State;

/* steps of a state that is not limited */
#define TODANA_UNLIMITED	0x3fffffffffffffffLL

/* initial state of `math.random': that of `lrand48' without a seed */
#define TODANA_RANDOM		0x1234abcd330eULL

/* longest text that is converted to a number */
#define TODANA_NUMERAL_MAX	200

/*
** most results of a function of C, and most arguments of one of the program,
** which needs as many references, and as many again for its results
*/
#define TODANA_VALUES_MAX	8000

/* why a script must end: `stopped' of the global state */
#define TODANA_STEPS	1
#define TODANA_MEMORY	2

/* counts work, where it is not possible to stop; the next instruction stops */
#define todana_spend(L,n)	(G(L)->steps -= (long long)(n))

/* counts work in a loop of C, and stops the script if there was too much */
extern void todana_charge (struct lua_State *L, size_t n);

/* stops the script */
extern void todana_stop (struct lua_State *L);

/* why the script must end, or 0 */
extern int todana_stopped (struct lua_State *L);

/* throws the error of a stopped script again; its message is on the stack */
extern void todana_rethrow (struct lua_State *L);

/* the hash of strings and numbers */
extern unsigned int todana_hash (unsigned long long secret, const char *bytes,
                                 size_t len);

/* the secret of new states */
extern unsigned long long todana_secret (void);

/* the number of an object, which stands for its address */
extern unsigned int todana_serial (struct lua_State *L, int index);

/* the next number of `math.random', from 0 to 2^31 - 1, and its seed */
extern unsigned int todana_random (struct lua_State *L);
extern void todana_seed_random (struct lua_State *L, unsigned int seed);

/*
** For the program. The secret is that of states made from now on.
*/
extern void todana_set_secret (unsigned long long secret);
extern void todana_set_steps (struct lua_State *L, long long steps);
extern long long todana_steps (struct lua_State *L);

#endif
