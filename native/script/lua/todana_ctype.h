/*
** Todana's additions to Lua 5.1.5: classes of characters in ASCII, whatever
** the locale of the process
*/

#ifndef todana_ctype_h
#define todana_ctype_h

#include <ctype.h>

#define tdn_in(c,a,b)	((unsigned)(c) - (unsigned)(a) <= (unsigned)((b) - (a)))

static int tdn_islower (int c) { return tdn_in(c, 'a', 'z'); }
static int tdn_isupper (int c) { return tdn_in(c, 'A', 'Z'); }
static int tdn_isalpha (int c) { return tdn_in(c | 32, 'a', 'z'); }
static int tdn_isdigit (int c) { return tdn_in(c, '0', '9'); }
static int tdn_isalnum (int c) { return tdn_isalpha(c) || tdn_isdigit(c); }
static int tdn_iscntrl (int c) { return tdn_in(c, 0, 31) || c == 127; }
static int tdn_isspace (int c) { return c == ' ' || tdn_in(c, 9, 13); }
static int tdn_ispunct (int c) { return tdn_in(c, 33, 126) && !tdn_isalnum(c); }
static int tdn_isxdigit (int c) {
  return tdn_isdigit(c) || tdn_in(c | 32, 'a', 'f');
}
static int tdn_tolower (int c) { return tdn_isupper(c) ? c + 32 : c; }
static int tdn_toupper (int c) { return tdn_islower(c) ? c - 32 : c; }

#undef isalpha
#undef isalnum
#undef iscntrl
#undef isdigit
#undef islower
#undef ispunct
#undef isspace
#undef isupper
#undef isxdigit
#undef tolower
#undef toupper
#define isalpha tdn_isalpha
#define isalnum tdn_isalnum
#define iscntrl tdn_iscntrl
#define isdigit tdn_isdigit
#define islower tdn_islower
#define ispunct tdn_ispunct
#define isspace tdn_isspace
#define isupper tdn_isupper
#define isxdigit tdn_isxdigit
#define tolower tdn_tolower
#define toupper tdn_toupper

#endif
