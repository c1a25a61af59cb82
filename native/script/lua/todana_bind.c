/*
** Todana: what the program calls. Errors of Lua are jumps, which must not
** leave a function of Rust: each function here catches them and returns a
** status, and an error of Rust is raised in C, after Rust has returned.
**
** Steps, numbers of objects and the growth of stacks are those of the binding
** that earlier versions had (the crate `mlua'), because scripts are logged,
** and nodes of two versions have to count the same: `as_called'.
*/

#define todana_bind_c
#define LUA_CORE

#include <string.h>

#include "lua.h"

#include "lauxlib.h"
#include "ldebug.h"
#include "ldo.h"
#include "lfunc.h"
#include "lgc.h"
#include "lobject.h"
#include "lstate.h"
#include "lstring.h"
#include "ltable.h"
#include "lualib.h"
#include "todana.h"
#include "todana_bind.h"


/* bytes that a script makes before the collector begins: as many as there are,
   between these */
#define MEMORY_LEAST	24168
#define MEMORY_MOST	(1024 * 1024)


/*
** The work of a protected call by two functions of C: what the closures, the
** entry of the call and `slots' more values on the stack take.
*/
static void as_called (lua_State *L, int slots) {
  global_State *g = G(L);
  luaC_checkGC(L);
  g->steps -= 2 * (4 + ((long long)sizeCclosure(0) >> 4));
  g->serial += 2;
  if (L->nCcalls + 1 >= LUAI_MAXCCALLS)
    luaG_runerror(L, "C stack overflow");
  if ((char *)L->stack_last - (char *)L->top <=
      (slots + LUA_MINSTACK) * (int)sizeof(TValue))
    luaD_growstack(L, LUA_MINSTACK + slots);
  if (L->ci == L->end_ci) {
    if (L->size_ci > LUAI_MAXCALLS) luaD_throw(L, LUA_ERRERR);
    luaD_reallocCI(L, 2 * L->size_ci);
    if (L->size_ci > LUAI_MAXCALLS) luaG_runerror(L, "stack overflow");
  }
}


static int protected_by_lua (lua_State *L, Pfunc f, void *data) {
  return luaD_pcall(L, f, data, savestack(L, L->top), 0);
}


typedef struct Bytes {
  const char *bytes;
  size_t len;
} Bytes;


static void push_bytes (lua_State *L, void *data) {
  Bytes *b = cast(Bytes *, data);
  as_called(L, 3);
  luaC_checkGC(L);
  setsvalue2s(L, L->top, luaS_newlstr(L, b->bytes, b->len));
  L->top++;
}

int todana_push_bytes (lua_State *L, const char *bytes, size_t len) {
  Bytes b;
  b.bytes = bytes;
  b.len = len;
  return protected_by_lua(L, push_bytes, &b);
}


typedef struct Sizes {
  int array;
  int fields;
} Sizes;


static void push_table (lua_State *L, void *data) {
  Sizes *s = cast(Sizes *, data);
  as_called(L, 3);
  lua_createtable(L, s->array, s->fields);
}

int todana_push_table (lua_State *L, int array, int fields) {
  Sizes s;
  s.array = array;
  s.fields = fields;
  return protected_by_lua(L, push_table, &s);
}


static void set_field (lua_State *L, void *data) {
  UNUSED(data);
  as_called(L, 2);
  lua_rawset(L, -3);
}

int todana_raw_set (lua_State *L) {
  /* the table, the key and the value are on the stack, and stay there if
     this fails: the caller knows the top from before */
  return protected_by_lua(L, set_field, NULL);
}


static void next_field (lua_State *L, void *data) {
  *cast(int *, data) = lua_next(L, -2);
}

int todana_next (lua_State *L) {
  int is_there = 0;
  int status = protected_by_lua(L, next_field, &is_there);
  return status != 0 ? -status : is_there;
}


int todana_call (lua_State *L, int arguments) {
  return lua_pcall(L, arguments, LUA_MULTRET, 0);
}


/* a function of the program, of which the upvalue is its description */
static int native (lua_State *L) {
  int results = todana_run_native(L, lua_touserdata(L, lua_upvalueindex(1)));
  if (results >= 0) return results;
  if (todana_stopped(L)) todana_rethrow(L);
  return lua_error(L);  /* its message is on the top */
}


/* what the memory of a function of the former binding took of the counters */
#define FORMER_FUNCTION	(4 + ((sizeof(Udata) + 24) >> 4))

static void push_native (lua_State *L, void *data) {
  global_State *g = G(L);
  as_called(L, 3);
  todana_spend(L, FORMER_FUNCTION);
  g->serial++;
  as_called(L, 2);
  lua_pushlightuserdata(L, data);
  lua_pushcclosure(L, native, 1);
}

int todana_push_native (lua_State *L, const void *description) {
  return protected_by_lua(L, push_native, (void *)description);
}


/* what the first call of a function of the program in a run takes: the former
   binding made an object for its errors */
void todana_first_call (lua_State *L) {
  todana_spend(L, 4 + (112 >> 4));
  G(L)->serial++;
}


/* `next', which scripts may replace, is in the registry */
static const char next_key = 'n';

static void keep_next (lua_State *L, void *data) {
  UNUSED(data);
  lua_pushlightuserdata(L, (void *)&next_key);
  lua_getglobal(L, "next");
  lua_rawset(L, LUA_REGISTRYINDEX);
}

int todana_keep_next (lua_State *L) {
  return protected_by_lua(L, keep_next, NULL);
}


static void push_kept_next (lua_State *L, void *data) {
  UNUSED(data);
  as_called(L, 3);
  lua_pushlightuserdata(L, (void *)&next_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
}

int todana_push_next (lua_State *L) {
  return protected_by_lua(L, push_kept_next, NULL);
}


typedef struct Text {
  const char *bytes;
  size_t len;
  const char *name;
  int status;
} Text;


static void load (lua_State *L, void *data) {
  Text *t = cast(Text *, data);
  as_called(L, 3);
  L->nCcalls++;
  t->status = luaL_loadbuffer(L, t->bytes, t->len, t->name);
  L->nCcalls--;
}

int todana_load (lua_State *L, const char *bytes, size_t len,
                 const char *name) {
  Text t;
  int status;
  t.bytes = bytes;
  t.len = len;
  t.name = name;
  t.status = 0;
  status = protected_by_lua(L, load, &t);
  return status != 0 ? status : t.status;
}


/* numbers of objects before each library, as earlier versions had them */
static const struct {
  lua_CFunction open;
  const char *name;
  unsigned int serial;
} libraries[] = {
  {luaopen_base, "_G", 2},
  {luaopen_table, LUA_TABLIBNAME, 149},
  {luaopen_string, LUA_STRLIBNAME, 162},
  {luaopen_math, LUA_MATHLIBNAME, 181}
};

static void open_libraries (lua_State *L, void *data) {
  size_t i;
  UNUSED(data);
  for (i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
    G(L)->serial = libraries[i].serial;
    lua_pushcfunction(L, libraries[i].open);
    lua_pushstring(L, libraries[i].name);
    lua_call(L, 1, 0);
  }
}

static void open_references (lua_State *L, void *data) {
  lua_State **references = cast(lua_State **, data);
  *references = lua_newthread(L);
  luaL_ref(L, LUA_REGISTRYINDEX);
}

int todana_open (lua_State *L, lua_State **references, void *program) {
  int status = protected_by_lua(L, open_libraries, NULL);
  G(L)->program = program;
  return status != 0 ? status
                     : protected_by_lua(L, open_references, references);
}


void *todana_program (lua_State *L) {
  return G(L)->program;
}


/* the script ends, whatever it catches */
void todana_end (lua_State *L) {
  if (G(L)->stopped == 0) G(L)->stopped = TODANA_STEPS;
}


void todana_set_serial (lua_State *L, unsigned int serial) {
  G(L)->serial = serial;
}


/* marks of strings, which have no use for these of tables and other objects */
#define IMAGE_MARK	bitmask(VALUEWEAKBIT)
#define WORD_MARK	bitmask(KEYWEAKBIT)

/* strings of the image without a script, as earlier versions had them, and the
   size of their table */
#define IMAGE_STRINGS	185
#define IMAGE_STRINGS_SIZE	256


/* the size of the stack, as well */
#define IMAGE_STACK	90

/* strings which earlier versions had, and which no script pays for */
static const char *const former_strings[] = {
  "__tostring", "__type", "constants", "todana.next", "todana_wrap"
};

static void collect (lua_State *L, void *data) {
  size_t i;
  UNUSED(data);
  for (i = 0; i < sizeof(former_strings) / sizeof(former_strings[0]); i++)
    luaS_fix(luaS_new(L, former_strings[i]));
  luaC_fullgc(L);
  luaD_reallocstack(L, IMAGE_STACK);
}

/*
** The end of what all scripts have in common. Numbers of objects and of
** strings are those of earlier versions.
*/
int todana_seal (lua_State *L, unsigned int serial) {
  global_State *g = G(L);
  int i;
  int status = protected_by_lua(L, collect, NULL);
  if (status != 0) return status;
  if (g->strt.size != IMAGE_STRINGS_SIZE || g->strt.nuse != IMAGE_STRINGS) {
    lua_pushliteral(L, "strings differ from those of earlier versions");
    return LUA_ERRRUN;
  }
  for (i = 0; i < g->strt.size; i++) {
    GCObject *o;
    for (o = g->strt.hash[i]; o != NULL; o = o->gch.next)
      l_setbit(o->gch.marked, VALUEWEAKBIT);
  }
  g->serial = serial;
  return 0;
}


/* between the image and the first instruction, the collector waits, and the
   growth of the table of strings is not counted */
void todana_prepare (lua_State *L) {
  global_State *g = G(L);
  g->preparing = 1;
  g->GCthreshold = MAX_LUMEM;
}


typedef struct Words {
  const Bytes *words[2];
  size_t counts[2];
  unsigned int strings;  /* of the image and the words */
  long long steps;  /* which the source has counted for strings of the words */
} Words;


static TString *new_word (lua_State *L, Words *w, const char *bytes,
                          size_t len) {
  lu_int32 before = G(L)->strt.nuse;
  TString *s = luaS_newlstr(L, bytes, len);
  if ((s->tsv.marked & (IMAGE_MARK | WORD_MARK)) == 0) {
    l_setbit(s->tsv.marked, KEYWEAKBIT);
    w->strings++;
    if (G(L)->strt.nuse == before)  /* is it of the source, too? */
      w->steps += 4 + ((long long)sizestring(&s->tsv) >> 4);
  }
  return s;
}

/* Global tables of strings. They take no steps, and as many numbers of objects
   as a protected call for each operation. */
static void set_words (lua_State *L, void *data) {
  static const char *const names[2] = {"KEYS", "ARGV"};
  Words *w = cast(Words *, data);
  global_State *g = G(L);
  size_t list, i;
  for (list = 0; list < 2; list++) {
    size_t count = w->counts[list];
    Table *t;
    TString *name;
    g->serial += 2;
    lua_createtable(L, count > MAX_INT ? MAX_INT : cast_int(count), 0);
    t = hvalue(L->top - 1);
    for (i = 0; i < count; i++) {
      const Bytes *b = w->words[list] + i;
      TString *s = new_word(L, w, b->bytes, b->len);
      setsvalue2s(L, L->top, s);
      L->top++;
      setobj2t(L, luaH_setnum(L, t, cast_int(i + 1)), L->top - 1);
      luaC_barriert(L, t, L->top - 1);
      L->top--;
    }
    g->serial += 4 * cast(unsigned int, count);
    name = new_word(L, w, names[list], strlen(names[list]));
    setsvalue2s(L, L->top, name);
    L->top++;
    lua_insert(L, -2);
    lua_rawset(L, LUA_GLOBALSINDEX);
    g->serial += 4;
  }
}

/*
** The last preparation. The words of a script are there before its source is
** compiled, by the numbers of objects and the steps that are counted; in fact
** they come after it, because a compiled source is kept. So what depends on
** the order is counted here, for a source that was kept and for one that was
** not: `serial' is the number of objects before the source.
*/
int todana_set_words (lua_State *L, unsigned int serial,
                      const void *keys, size_t keys_count,
                      const void *arguments, size_t arguments_count) {
  global_State *g = G(L);
  unsigned int of_source = g->serial - serial;
  long long steps = g->steps;
  lu_int32 size = IMAGE_STRINGS_SIZE;
  size_t room;
  int status;
  Words w;
  w.words[0] = cast(const Bytes *, keys);
  w.words[1] = cast(const Bytes *, arguments);
  w.counts[0] = keys_count;
  w.counts[1] = arguments_count;
  w.strings = IMAGE_STRINGS;
  w.steps = 0;
  g->serial = serial;
  status = protected_by_lua(L, set_words, &w);
  g->serial += of_source;
  g->steps = steps + w.steps;
  while (w.strings > size) size *= 2;
  for (; size < cast(lu_int32, g->strt.size); size *= 2)
    g->steps -= 4 + ((2 * (long long)size * (long long)sizeof(GCObject *)) >> 4);
  g->preparing = 0;
  room = g->totalbytes;
  if (room > MEMORY_MOST) room = MEMORY_MOST;
  if (room < MEMORY_LEAST) room = MEMORY_LEAST;
  g->estimate = g->totalbytes;
  g->GCthreshold = g->totalbytes + room;
  return status;
}


int todana_line (lua_State *L, const char *source) {
  lua_Debug ar;
  int level;
  for (level = 1; level < 100; level++) {
    if (lua_getstack(L, level, &ar) == 0) return -1;
    if (lua_getinfo(L, "Sl", &ar) == 0) return -1;
    if (strcmp(ar.source, source) == 0 && ar.currentline >= 0)
      return ar.currentline;
  }
  return -1;
}
