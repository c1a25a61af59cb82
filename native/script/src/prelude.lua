-- What a script finds in its environment beside Lua's own libraries. `engine.rs` passes what is
-- written in Rust. Such a function returns true and its results, or false and an error; `wrap`
-- makes a function from it that raises the error.
local call, pcall, libraries, constants, sha1hex, setresp, log, handler = ...
local error, next, rawset, tostring, type, xpcall = error, next, rawset, tostring, type, xpcall
local wrap = todana_wrap
rawset(_G, "todana_wrap", nil)

local redis = { call = wrap(call), pcall = wrap(pcall) }

function redis.error_reply(...)
    local text, more = ...
    if type(text) ~= "string" or more ~= nil then
        return { err = "ERR wrong number or type of arguments" }
    end
    if text:sub(1, 1) == "-" then text = text:sub(2) end
    -- Without a space, the text has no code.
    if not text:find(" ", 1, true) then text = "ERR " .. text end
    return { err = text }
end

function redis.status_reply(...)
    local text, more = ...
    if type(text) ~= "string" or more ~= nil then
        return { err = "ERR wrong number or type of arguments" }
    end
    return { ok = text }
end

redis.sha1hex = wrap(sha1hex)
redis.setresp = wrap(setresp)
redis.log = wrap(log)

-- Scripts are always replicated as a whole.
function redis.replicate_commands() return true end
function redis.set_repl() end
function redis.breakpoint() return false end
function redis.debug() end

for name, value in next, constants do redis[name] = value end

local function library(name)
    local functions, values = libraries(name)
    if not functions then return nil end
    local made = {}
    for key, rust in next, functions do made[key] = wrap(rust) end
    for key, value in next, values do made[key] = value end
    return made
end

local globals = _G
rawset(globals, "redis", redis)
rawset(globals, "server", redis)
setmetatable(globals, {
    __index = function(_, name)
        local made = library(name)
        if made then
            rawset(globals, name, made)
            return made
        end
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
    __newindex = function() error("Attempt to modify a readonly table", 2) end,
    __metatable = false,
})

return function(script) return xpcall(script, handler) end
