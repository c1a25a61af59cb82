/*
** Todana: what the program calls, and what it is called for. Statuses are
** those of Lua, 0 for success; then the error is on the stack.
*/

#ifndef todana_bind_h
#define todana_bind_h

#include <stddef.h>

struct lua_State;

/* the function of the program. Returns the number of its results on the
   stack, or less than 0 with an error on the stack */
extern int todana_run_native (struct lua_State *L, const void *description);

extern int todana_push_bytes (struct lua_State *L, const char *bytes,
                              size_t len);
extern int todana_push_table (struct lua_State *L, int array, int fields);
extern int todana_push_native (struct lua_State *L, const void *description);
extern int todana_keep_next (struct lua_State *L);
extern int todana_push_next (struct lua_State *L);
extern int todana_raw_set (struct lua_State *L);

/* the entry after the key on the stack: 1, 0 at the end, a negative status */
extern int todana_next (struct lua_State *L);

extern int todana_call (struct lua_State *L, int arguments);
extern int todana_load (struct lua_State *L, const char *bytes, size_t len,
                        const char *name);
extern void todana_first_call (struct lua_State *L);

/* the line of the innermost function of a source, or -1 */
extern int todana_line (struct lua_State *L, const char *source);

/* opens the libraries; `references' is a thread whose stack keeps values */
extern int todana_open (struct lua_State *L, struct lua_State **references,
                        void *program);
extern void *todana_program (struct lua_State *L);
extern void todana_end (struct lua_State *L);
extern void todana_set_serial (struct lua_State *L, unsigned int serial);
extern int todana_seal (struct lua_State *L, unsigned int serial);
extern void todana_prepare (struct lua_State *L);
extern int todana_set_words (struct lua_State *L, unsigned int serial,
                             const void *keys, size_t keys_count,
                             const void *arguments, size_t arguments_count);

#endif
