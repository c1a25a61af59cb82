//! Random scripts, for tests and fuzzers.

/// Choices: numbers below a bound, from any source of randomness.
pub(crate) struct Random<F: FnMut() -> u32> {
    next: F,
    depth: u32,
    locals: u32,
}

const WORDS: &[&str] = &[
    "a",
    "b",
    "k1",
    "KEYS",
    "ARGV",
    "name",
    "value",
    "'x'",
    "%d",
    "%s",
    "a,b;c",
    "key:123",
    "1",
    "10",
    "0x1f",
    "abcabc",
    "true",
    "nil",
    "[1,2,{\\\"a\\\":[null,1.5]}]",
    "err",
    "ok",
    "map",
    "set",
];

const NAMES: &[&str] = &[
    "tostring",
    "tonumber",
    "type",
    "pairs",
    "ipairs",
    "next",
    "pcall",
    "error",
    "select",
    "unpack",
    "rawget",
    "rawset",
    "string.rep",
    "string.format",
    "string.find",
    "string.gsub",
    "string.sub",
    "string.byte",
    "string.char",
    "string.upper",
    "string.reverse",
    "string.len",
    "table.concat",
    "table.insert",
    "table.remove",
    "table.sort",
    "table.maxn",
    "math.floor",
    "math.random",
    "math.max",
    "math.fmod",
    "cjson.encode",
    "cjson.decode",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "struct.pack",
    "struct.unpack",
    "struct.size",
    "bit.band",
    "bit.lshift",
    "bit.tohex",
    "redis.call",
    "redis.pcall",
    "redis.sha1hex",
    "redis.status_reply",
    "redis.error_reply",
    "redis.setresp",
    "redis.log",
    "coroutine.wrap",
    "coroutine.create",
    "coroutine.resume",
    "coroutine.yield",
    "setmetatable",
    "getmetatable",
    "loadstring",
    "assert",
    "string.match",
    "string.gmatch",
    "rawequal",
    "xpcall",
    "cjson.encode_max_depth",
    "cjson.encode_number_precision",
    "math.randomseed",
    "tostring_",
    "load",
];

impl<F: FnMut() -> u32> Random<F> {
    pub(crate) fn new(next: F) -> Random<F> {
        Random { next, depth: 0, locals: 0 }
    }

    pub(crate) fn below(&mut self, end: u32) -> u32 {
        (self.next)() % end
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u32) as usize]
    }

    fn local(&mut self) -> String {
        match self.locals {
            0 => "KEYS".to_owned(),
            locals => format!("v{}", self.below(locals.min(8))),
        }
    }

    fn word(&mut self) -> String {
        match self.below(4) {
            0 => format!("'w{}'", self.below(400)),
            1 => format!("'{}'", "z".repeat(self.below(60) as usize)),
            _ => format!("\"{}\"", self.of(WORDS)),
        }
    }

    fn number(&mut self) -> String {
        match self.below(6) {
            0 => self.of(&["0", "-1", "1e300", "0.5", "1/0", "0/0", "2^53", "-0.0"]).to_owned(),
            1 => format!("{}", self.below(100_000)),
            _ => format!("{}", self.below(12)),
        }
    }

    fn expressions(&mut self, most: u32) -> String {
        let count = self.below(most + 1);
        (0..count).map(|_| self.expression()).collect::<Vec<_>>().join(", ")
    }

    /// An expression.
    pub(crate) fn expression(&mut self) -> String {
        self.depth += 1;
        let kind = if self.depth > 5 { self.below(5) } else { self.below(20) };
        let text = match kind {
            0 => self.number(),
            1 => self.word(),
            2 => self.of(&["nil", "true", "false", "cjson.null", "{}", "KEYS", "ARGV"]).to_owned(),
            3 | 4 => self.local(),
            5 => format!("{{{}}}", self.expressions(4)),
            6 => {
                let (key, value, rest) = (self.word(), self.expression(), self.expressions(2));
                format!("{{[{key}] = {value}, {rest}}}")
            }
            7 => {
                let word = self.of(&["a", "k1", "name", "err", "ok"]).to_owned();
                format!("({}).{word}", self.expression())
            }
            8 => format!("({})[{}]", self.expression(), self.expression()),
            9 => {
                let operator =
                    self.of(&["+", "-", "*", "..", "==", "<", "and", "or", "%", "^", ".."]);
                format!("({} {operator} {})", self.expression(), self.expression())
            }
            10 => {
                let operator = self.of(&["#", "-", "not "]);
                format!("{operator}({})", self.expression())
            }
            11 => {
                let body = self.block(2);
                format!("function(...) {body} return ... end")
            }
            12 => {
                let command =
                    self.of(&["fail", "null", "status", "number", "costly", "get", "set"]);
                let function = self.of(&["redis.call", "redis.pcall"]);
                format!(
                    "{function}('{command}', {}'x')",
                    match self.below(3) {
                        0 => String::new(),
                        _ => format!("{}, ", self.expression()),
                    }
                )
            }
            13 => {
                let name = self.of(NAMES);
                format!("select(2, pcall({name}, {}))", self.expression())
            }
            14 => format!("tostring({})", self.expression()),
            15 => format!("cjson.encode({})", self.expression()),
            _ => {
                let name = self.of(NAMES);
                let arguments = self.expressions(3);
                format!("{name}({arguments})")
            }
        };
        self.depth -= 1;
        text
    }

    fn statement(&mut self) -> String {
        self.depth += 1;
        let kind = if self.depth > 4 { self.below(4) } else { self.below(14) };
        let text = match kind {
            0 | 1 => {
                let value = self.expression();
                let name = format!("v{}", self.locals % 8);
                self.locals += 1;
                format!("local {name} = {value}")
            }
            2 => format!("local _ = {}", self.expression()),
            3 => {
                let (table, key, value) = (self.local(), self.expression(), self.expression());
                format!("pcall(function() {table}[{key}] = {value} end)")
            }
            4 | 5 => {
                let times = self.of(&["3", "10", "40", "300"]).to_owned();
                format!("for i = 1, {times} do {} end", self.block(3))
            }
            6 => {
                let table = self.local();
                let body = self.block(2);
                format!(
                    "if type({table}) == 'table' then for k, v in pairs({table}) do {body} end end"
                )
            }
            7 => {
                let times = self.of(&["20", "200", "2000", "20000"]).to_owned();
                let value = self.expression();
                format!(
                    "do local t = {{}} for i = 1, {times} do t[#t + 1] = 'a' .. i \
                     local x = {value} end end"
                )
            }
            8 => format!(
                "if {} then {} else {} end",
                self.expression(),
                self.block(2),
                self.block(2)
            ),
            9 => format!("pcall(function() {} end)", self.block(3)),
            10 => {
                let (key, value) = (self.expression(), self.expression());
                format!(
                    "local t = {{}} pcall(function() t[{key}] = {value} t[{{}}] = 1 end) \
                     t[pairs] = 2 \
                     for k, v in pairs(t) do local _ = tostring(k) end"
                )
            }
            11 => format!(
                "coroutine.wrap(function() {} coroutine.yield({}) end)()",
                self.block(2),
                self.expression()
            ),
            12 => {
                let count = 20 + self.below(200);
                let from = self.below(500);
                (from..from + count)
                    .map(|at| format!("do local s = 'n{at}' end "))
                    .collect::<String>()
            }
            _ => format!("error({})", self.expression()),
        };
        self.depth -= 1;
        text
    }

    fn block(&mut self, most: u32) -> String {
        let locals = self.locals;
        let count = 1 + self.below(most);
        let text = (0..count).map(|_| self.statement()).collect::<Vec<_>>().join(" ");
        self.locals = locals;
        text
    }

    /// A script.
    pub(crate) fn script(&mut self) -> String {
        self.depth = 0;
        self.locals = 0;
        let count = 1 + self.below(8);
        let mut text = (0..count).map(|_| self.statement()).collect::<Vec<_>>().join("\n");
        if self.below(8) > 0 {
            text = format!("{text}\nreturn {}", self.expression());
        }
        if self.below(40) == 0 {
            // It does not compile.
            text.truncate(text.floor_char_boundary(text.len() / 2));
        }
        if self.below(10) == 0 {
            text = format!("#!lua name=x\n{text}").replace(" name=x", "");
        }
        text
    }
}
