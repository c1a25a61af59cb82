/*
** Todana's additions to Lua 5.1.5; see todana.h
*/

#define todana_c
#define LUA_CORE

#include <string.h>

#include "lua.h"

#include "ldo.h"
#include "lobject.h"
#include "lstate.h"
#include "lstring.h"
#include "todana.h"


void todana_stop (lua_State *L) {
  global_State *g = G(L);
  if (g->stopped == 0) g->stopped = TODANA_STEPS;
  /* no message handler runs, and no memory is needed */
  luaD_throw(L, LUA_ERRERR);
}


void todana_charge (lua_State *L, size_t n) {
  global_State *g = G(L);
  if (n > (size_t)TODANA_UNLIMITED) n = (size_t)TODANA_UNLIMITED;
  g->steps -= (long long)n;
  if (g->steps < 0) todana_stop(L);
}


int todana_stopped (lua_State *L) {
  return G(L)->stopped;
}


void todana_rethrow (lua_State *L) {
  luaD_throw(L, G(L)->stopped == TODANA_MEMORY ? LUA_ERRMEM : LUA_ERRERR);
}


static unsigned long long next_secret = 0x9e3779b97f4a7c15ULL;


void todana_set_secret (unsigned long long secret) {
  __atomic_store_n(&next_secret, secret, __ATOMIC_RELAXED);
}


unsigned long long todana_secret (void) {
  return __atomic_load_n(&next_secret, __ATOMIC_RELAXED);
}


static unsigned long long folded (unsigned long long a, unsigned long long b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (unsigned long long)product ^ (unsigned long long)(product >> 64);
}


unsigned int todana_hash (unsigned long long secret, const char *bytes,
                          size_t len) {
  unsigned long long odd = (secret << 1) ^ 0xd1342543de82ef95ULL;
  unsigned long long hash = folded(secret ^ len, odd);
  while (len > 0) {
    unsigned long long word = 0;
    size_t n = len < sizeof(word) ? len : sizeof(word);
    memcpy(&word, bytes, n);
    hash = folded(hash ^ word, odd ^ (hash >> 32));
    bytes += n;
    len -= n;
  }
  hash = folded(hash ^ odd, secret | 1);
  return (unsigned int)(hash ^ (hash >> 32));
}


unsigned int todana_serial (lua_State *L, int index) {
  const TValue *o;
  if (index < 1 || index > L->top - L->base) return 0;
  o = L->base + index - 1;
  return iscollectable(o) ? gcvalue(o)->gch.serial : 0;
}


/* the generator of `lrand48' */
unsigned int todana_random (lua_State *L) {
  global_State *g = G(L);
  g->random = (g->random * 0x5deece66dULL + 0xb) & 0xffffffffffffULL;
  return (unsigned int)(g->random >> 17);
}


void todana_seed_random (lua_State *L, unsigned int seed) {
  G(L)->random = ((unsigned long long)seed << 16) | 0x330e;
}


void todana_set_steps (lua_State *L, long long steps) {
  G(L)->steps = steps;
}


long long todana_steps (lua_State *L) {
  return G(L)->steps;
}
