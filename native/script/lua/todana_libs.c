/*
** Todana's additions to Lua 5.1.5: the libraries that scripts must not have
** are not in the program. Its Rust binding names them, and never opens them.
*/

#include "lua.h"

#include "lauxlib.h"
#include "lualib.h"


static int absent (lua_State *L) {
  return luaL_error(L, "this library does not exist");
}


LUALIB_API int luaopen_io (lua_State *L) { return absent(L); }
LUALIB_API int luaopen_os (lua_State *L) { return absent(L); }
LUALIB_API int luaopen_package (lua_State *L) { return absent(L); }
LUALIB_API int luaopen_debug (lua_State *L) { return absent(L); }
LUALIB_API void luaL_openlibs (lua_State *L) { absent(L); }
