//! Scripts as clients write them, and as attackers do.

use crate::{Called, Calls, Job, Limits, Outcome, Stop, run};
use todana_command::Value;

struct Echo;

impl Calls for Echo {
    fn call(&mut self, arguments: &[&[u8]], _: bool, _: u64) -> Called {
        let value = match arguments {
            [b"fail"] => Value::Error(b"ERR it fails".to_vec()),
            [b"null"] => Value::Null,
            [b"status"] => Value::Status(b"OK".to_vec()),
            [b"number"] => Value::Integer(7),
            [b"costly"] => return Called::TooMuch,
            _ => Value::List(arguments.iter().map(|it| Value::Bytes(it.to_vec())).collect()),
        };
        Called::Reply(value, 10)
    }
}

const LIMITS: Limits = Limits { steps: 2_000_000, bytes: 16 << 20 };

fn outcome(source: &str) -> Outcome {
    let job = Job {
        source: source.as_bytes(),
        keys: &[b"k1", b"k2"],
        arguments: &[b"a1"],
        limits: LIMITS,
    };
    run(&job, &mut Echo).0
}

#[track_caller]
fn value(source: &str) -> Value {
    match outcome(source) {
        Outcome::Reply(value) => value,
        stopped => panic!("{source}: {stopped:?}"),
    }
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

fn error(text: &str) -> Value {
    Value::Error(text.as_bytes().to_vec())
}

#[track_caller]
fn text(source: &str) -> String {
    match value(source) {
        Value::Bytes(text) | Value::Error(text) => String::from_utf8(text).expect("text"),
        other => panic!("{source}: {other:?}"),
    }
}

#[rustfmt::skip]
#[test]
fn values_are_converted_as_in_redis() {
    let cases = [
        ("return 3.99", Value::Integer(3)),
        ("return -3.99", Value::Integer(-3)),
        ("return 2^53", Value::Integer(1 << 53)),
        ("return 2^63", Value::Integer(i64::MIN)),
        ("return 1e300", Value::Integer(i64::MIN)),
        ("return -1/0", Value::Integer(i64::MIN)),
        ("return 0/0", Value::Integer(i64::MIN)),
        ("return true", Value::Integer(1)),
        ("return false", Value::Null),
        ("return nil", Value::Null),
        ("return", Value::Null),
        ("return 'x'", bytes("x")),
        ("return {1, 'b', nil, 4}", Value::List(vec![Value::Integer(1), bytes("b")])),
        ("return {ok = 'fine'}", Value::Status(b"fine".to_vec())),
        ("return {err = 'MY words'}", error("MY words")),
        ("return redis.status_reply('A')", Value::Status(b"A".to_vec())),
        ("return redis.error_reply('MY words')", error("MY words")),
        ("return redis.error_reply('-MY words')", error("MY words")),
        ("return redis.error_reply('')", error("ERR ")),
        ("return redis.error_reply('-')", error("ERR ")),
        ("return redis.error_reply('-x')", error("ERR x")),
        ("return redis.error_reply('x').err", bytes("ERR x")),
        ("return redis.error_reply('--a b').err", bytes("-a b")),
        ("return redis.error_reply(' ')", error(" ")),
        ("return {err = 'x'}", error("x")),
        (
            "return {verbatim_string = {format = 'mkd', string = 'x'}}",
            Value::Verbatim(*b"mkd", b"x".to_vec()),
        ),
        ("return {double = 1.5}", Value::Double(1.5)),
        ("return KEYS", Value::List(vec![bytes("k1"), bytes("k2")])),
        ("return ARGV[1] .. #KEYS", bytes("a12")),
        ("return redis.call('null')", Value::Null),
        ("return tostring(redis.call('null'))", bytes("false")),
        ("return redis.call('status')", Value::Status(b"OK".to_vec())),
        ("return redis.call('status').ok", bytes("OK")),
        ("return redis.call('number') + 1", Value::Integer(8)),
        ("return redis.pcall('fail')", error("ERR it fails")),
        ("return redis.pcall('fail').err", bytes("ERR it fails")),
        ("return redis.call('a', 1, 2.5, 1e20)[3]", bytes("2.5")),
        ("return redis.call('a', 10)[2]", bytes("10")),
        ("redis.setresp(3) return true", Value::Boolean(true)),
        ("redis.setresp(3) return tostring(redis.call('null'))", bytes("nil")),
        ("return redis.sha1hex('')", bytes("da39a3ee5e6b4b0d3255bfef95601890afd80709")),
        ("local t = {} t[1] = t return type(t[1])", bytes("table")),
        ("#!lua flags=no-writes\nreturn 5", Value::Integer(5)),
        ("return redis.REDIS_VERSION_NUM > 0 and redis.LOG_WARNING", Value::Integer(3)),
        ("return server.call('number')", Value::Integer(7)),
    ];
    for (source, expected) in cases {
        assert_eq!(value(source), expected, "{source}");
    }
}

#[rustfmt::skip]
#[test]
fn errors_name_the_line() {
    let name =
        |source: &str| String::from_utf8(crate::name_of(source.as_bytes()).to_vec()).expect("hex");
    let cases = [
        ("return redis.call('fail')", "ERR it fails script: %, on @user_script:1."),
        ("\nerror('x')", "ERR user_script:2: x script: %, on @user_script:2."),
        (
            "local x\nreturn x.y",
            "ERR user_script:2: attempt to index local 'x' (a nil value) script: %, on @user_script:2.",
        ),
        (
            "return foo",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'foo' script: %, on @user_script:1.",
        ),
        (
            "foo = 1",
            "ERR user_script:1: Attempt to modify a readonly table script: %, on @user_script:1.",
        ),
        ("error({err = 'MINE'})", "MINE script: %, on @user_script:1."),
        (
            "return redis.call()",
            "ERR Please specify at least one argument for this redis lib call script: %, on @user_script:1.",
        ),
        (
            "return redis.call({})",
            "ERR Lua redis lib command arguments must be strings or integers script: %, on @user_script:1.",
        ),
        (
            "return cjson.decode('{')",
            "ERR user_script:1: Expected object key string but found T_END at character 2 script: %, on @user_script:1.",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(text(source), expected.replace('%', &name(source)), "{source}");
    }
    assert!(
        text("return (").starts_with("ERR Error compiling script (new function): user_script:1:")
    );
    assert_eq!(text("return select(2, pcall(error, 'x'))"), "x");
    assert_eq!(text("return select(2, pcall(redis.call, 'fail'))"), "ERR it fails");
    assert_eq!(
        text("return tostring(select(2, pcall(cjson.decode, 'x')))"),
        "Expected value but found invalid token at character 1"
    );
}

#[rustfmt::skip]
#[test]
fn libraries_do_what_those_of_redis_do() {
    let cases = [
        ("return cjson.encode({1, 2, {a = 'b/c'}})", r#"[1,2,{"a":"b\/c"}]"#),
        ("return cjson.encode({})", "{}"),
        ("return cjson.encode({cmsgpack.pack({}):byte(1), cmsgpack.pack({{}}):byte(1, 2)})", "[144,145,144]"),
        ("return cjson.encode('\\1\\31\\127')", r#""\u0001\u001f\u007f""#),
        ("return cjson.encode({[1] = 1, x = 2})", r#"{"1":1,"x":2}"#),
        (
            "return cjson.encode({0.1, 1e100, -5, cjson.null, true, 'a\\n\"\\0'})",
            r#"[0.1,1e+100,-5,null,true,"a\n\"\u0000"]"#,
        ),
        (
            "return cjson.encode(cjson.decode('[1,[],{},\"\\\\u00e9\\\\ud83d\\\\ude00\",null,false,1.5e3]'))",
            "[1,{},{},\"é😀\",null,false,1500]",
        ),
        ("return cjson.decode('{\"a\":{\"b\":[10,20]}}').a.b[2]", ""),
        ("return tostring(cjson.decode('null') == cjson.null)", "true"),
        ("return tostring(pcall(cjson.encode, {[1000] = 1}))", "false"),
        (
            "return cmsgpack.pack(1, 'a', {1, 2}, true):gsub('.', function(c) return ('%02x'):format(c:byte()) end)",
            "01a161920102c3",
        ),
        (
            "return cjson.encode(cmsgpack.unpack(cmsgpack.pack({a = {1, 2, 300, -1, -200, 70000, 1.5, 'x'}})))",
            r#"{"a":[1,2,300,-1,-200,70000,1.5,"x"]}"#,
        ),
        (
            "return struct.pack('>I2hbs', 258, -2, 5, 'hi'):gsub('.', function(c) return ('%02x'):format(c:byte()) end)",
            "0102fffe05686900",
        ),
        (
            "return cjson.encode({struct.unpack('<i4Bs', '\\1\\0\\0\\0\\255abc\\0')})",
            r#"[1,255,"abc",10]"#,
        ),
        ("return tostring(struct.size('!8bi4d'))", "16"),
        ("return bit.tohex(bit.bxor(0xff00ff00, 0x0f0f0f0f))", "f00ff00f"),
        ("return tostring(bit.lshift(1, 31))", "-2147483648"),
        ("return tostring(bit.arshift(-8, 1)) .. bit.bnot(0) .. bit.tohex(255, 4)", "-4-100ff"),
        ("return ('%5.2f|%-5s|%q'):format(3.14159, 'ab', 'x')", " 3.14|ab   |\"x\""),
        ("return (('a,b;c'):gsub('[,;]', '-'))", "a-b-c"),
        (
            "local t = {} for w in ('one two'):gmatch('%a+') do t[#t + 1] = w end return table.concat(t, '+')",
            "one+two",
        ),
        ("return ('key:123'):match('key:(%d+)')", "123"),
        (
            "local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t)",
            "321",
        ),
        ("return tostring(tonumber('0x1F')) .. tostring(tonumber('zz', 36))", "311295"),
        (
            "return coroutine.wrap(function(...) local x = coroutine.yield(...) return x end)('y')",
            "y",
        ),
        (
            "return tostring(math.random()) == tostring(math.random()) and 'same' or 'differs'",
            "differs",
        ),
        ("return loadstring('return 1 + 1')() == 2 and 'yes' or 'no'", "yes"),
    ];
    for (source, expected) in cases {
        if expected.is_empty() {
            assert_eq!(value(source), Value::Integer(20), "{source}");
        } else {
            assert_eq!(text(source), expected, "{source}");
        }
    }
}

#[test]
fn nothing_leads_out() {
    for name in [
        "os", "io", "debug", "package", "require", "module", "dofile", "loadfile", "print",
        "newproxy", "getfenv", "setfenv", "gcinfo",
    ] {
        let source = format!("return tostring(pcall(function() return {name} end))");
        assert_eq!(text(&source), "false", "{name}");
    }
    assert_eq!(text("return tostring(string.dump)"), "nil");
    // Bytecode is text that does not compile.
    assert_eq!(text("return tostring(loadstring('\\27Lua\\81\\0\\1\\4\\8\\4\\8\\0'))"), "nil");
    assert_eq!(text("return tostring(load(function() return nil end) ~= nil)"), "true");
    // What one script changes, no other sees.
    value(
        "string.format = nil getmetatable('').__index = nil rawset(_G, 'x', 1) table.concat = nil",
    );
    assert_eq!(text("return ('%d'):format(5) .. tostring(rawget(_G, 'x'))"), "5nil");
    // Addresses are not visible.
    let first = text("return tostring({}) .. tostring(print_) ");
    assert!(first.contains("nonexistent"), "{first}");
    assert_eq!(
        text("return tostring({}) .. tostring(redis.call)"),
        text("return tostring({}) .. tostring(redis.call)")
    );
}

/// Each is stopped, whatever it catches.
#[rustfmt::skip]
const ENDLESS: &[&str] = &[
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "local function f() return pcall(f) end while true do f() end",
    "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
    "while true do coroutine.wrap(function() for i = 1, 900 do end end)() end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "return ('a'):rep(30000):find('.-.-.-.-b')",
    "return ('a'):rep(100):match(('a*'):rep(100) .. 'b')",
    "return ('x'):rep(1e9)",
    "return ('x'):rep(1e6):rep(1e6)",
    "local s = ('x'):rep(1e6) while true do local t = s .. 'y' end",
    "local a, b = ('x'):rep(1e6) .. 'a', ('x'):rep(1e6) .. 'b' while a < b do end",
    "local s = ('1'):rep(1e5) while true do local x = tonumber(s) end",
    "local s = '' while true do s = s .. 'xxxxxxxxxxxxxxxx' end",
    "local t = {} while true do t[#t + 1] = {} end",
    "local t = {} for i = 1, 1e9 do t[i] = i end",
    "local t = {} for i = 1, 30000 do t[i] = i end while true do table.insert(t, 1, 1) end",
    "local t = {} for i = 1, 20000 do t['k' .. i] = i end for k in pairs(t) do t[k] = nil end while true do next(t) end",
    "local t = {} for i = 1, 20000 do t[i] = '' end while true do table.concat(t) end",
    "local t = {} for i = 1, 50000 do t[i] = i % 7 end while true do table.sort(t) end",
    "local t = {} for i = 1, 7000 do t[i] = i end local function f(...) return select('#', ...) end while true do f(unpack(t)) end",
    "local f = loadstring('return ' .. ('('):rep(50) .. '1' .. (')'):rep(50)) while true do loadstring('x = ' .. ('1+'):rep(10000) .. '1') end",
    "while true do ('x'):rep(10000):gsub('x', 'yy') end",
    "while true do ('x'):rep(10000):upper():lower():reverse() end",
    "while true do string.format('%s', ('x'):rep(100000)) end",
    "local t = {} t[1] = t t[2] = t return t",
    "local s = ('x'):rep(1e5) while true do cjson.decode('[\"' .. s .. '\"]') end",
    "while true do redis.sha1hex(('x'):rep(1e5)) end",
    "while true do redis.call('a') end",
    "while true do redis.pcall('costly') end",
    "redis.call('costly')",
    "local t = {} for i = 1, 90 do t = setmetatable({}, {__index = t}) end while true do local x = t.x end",
    "while true do cmsgpack.pack({1, 2, 3}) end",
    "while true do pcall(string.rep, 'x', 1e9) end",
    "local s = {} for i = 1, 1e6 do s[i] = 'a' .. i .. ('b'):rep(64) end",
    "local s = ('1'):rep(1000000) while true do pcall(bit.bor, s, s, s, s, s, s) end",
    "local s = ('\\193'):rep(1000000) while true do pcall(cmsgpack.unpack, s) end",
    "local s = (' '):rep(100000) while true do pcall(struct.size, s) end",
    "local s = ('1'):rep(1000000) while true do pcall(struct.pack, 'c1c1c1c1', s, s, s, s) end",
    "while true do local x = ('%99.99f'):format(1e308) end",
    "local s = ('1'):rep(190) .. 'e-300' while true do local x = s + 1 end",
    "local s = ('1'):rep(190) while true do tonumber(s) end",
    "local s = ('1'):rep(190) while true do bit.bor(s, s, s, s) end",
];

#[test]
fn every_endless_script_is_stopped() {
    for source in ENDLESS {
        let begin = std::time::Instant::now();
        assert!(matches!(outcome(source), Outcome::Stopped(_)), "{source}: {:?}", outcome(source));
        let ms = begin.elapsed().as_millis();
        eprintln!("{ms:4} ms {source}");
        // Generous: a test build on a busy machine. Without the limits these take minutes.
        assert!(ms < 5_000, "{source}");
    }
}

/// Each fails with an error of its own, or ends, in little stack.
#[rustfmt::skip]
const DEEP: &[&str] = &[
    "local t = {} t[1] = t t[2] = t return cjson.encode(t)",
    "local t = setmetatable({}, {__index = function(t, k) return t[k .. 1] end}) return t.x",
    "local function f() return 1 + f() end return f()",
    "local function f() return pcall(f) end return tostring(f())",
    "local function f(x) return (('a'):gsub('a', f)) end return f()",
    "local function f() return coroutine.wrap(f)() end return f()",
    "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x",
    "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
    "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return tostring(t) end return tostring(t)",
    "return loadstring('return ' .. ('('):rep(5000) .. '1' .. (')'):rep(5000)) == nil and 1",
    "return loadstring(('do '):rep(5000)) == nil and 1",
    "return loadstring('return ' .. ('{'):rep(5000)) == nil and 1",
    "return loadstring('return ' .. ('function() return '):rep(5000)) == nil and 1",
    "return pcall(string.find, 'x', ('a?'):rep(50000) .. 'b') and 1",
    "return pcall(string.find, ('a'):rep(1000), ('a?'):rep(1000)) and 1",
    "return pcall(string.find, 'x', ('(' ):rep(1000)) and 1",
    "local t = {} local x = t for i = 1, 5000 do x[1] = {} x = x[1] end return cjson.encode(t)",
    "local t = {} local x = t for i = 1, 5000 do x[1] = {} x = x[1] end return t",
    "local t = {} local x = t for i = 1, 5000 do x[1] = {} x = x[1] end return #cmsgpack.pack(t)",
    "return cjson.decode(('['):rep(5000))",
    "return cmsgpack.unpack(('\\145'):rep(5000))",
    "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
    "return cmsgpack.unpack('\\219\\255\\255\\255\\255')",
    "return struct.pack('i2147483647', 1)",
    "return struct.unpack('c2147483647', 'x')",
    "return struct.unpack('I4c0', '\\255\\255\\255\\255x')",
    "return struct.unpack('!2147483648i', 'x')",
    "return struct.unpack('c0', 'x')",
    "return struct.size(('c2147483647'):rep(1000))",
    "return struct.unpack('i', 'xxxx', 2147483647)",
    "return struct.unpack('i', 'xxxx', -1)",
    "return cmsgpack.unpack_limit('\\1\\2', 1, -1)",
    "return cmsgpack.unpack_one('\\1\\2', 100)",
    "return ('%99.99f'):format(-1e308)",
    "return pcall(string.format, '%1000d', 1) and 1",
    "return pcall(string.format, ('%s'):rep(1000)) and 1",
    "return pcall(unpack, {}, 1, 1e8) and 1",
    "return pcall(unpack, {}, -2147483648, 2147483647) and 1",
    "return {pcall(string.byte, ('x'):rep(1e6), 1, -1)}",
    "error(setmetatable({}, {__tostring = function() while true do end end}))",
    "error()",
    "error(nil)",
    "error({})",
    "return setmetatable(_G, nil)",
    "return rawset(_G, '__index', nil) and 1",
    "getmetatable('').__index = nil return ('x'):rep(2)",
    "KEYS = nil",
    "return redis.error_reply()",
    "return redis.status_reply({})",
    "redis.setresp(4)",
    "redis.log(9, 'x')",
    "return redis.log(redis.LOG_WARNING, 'x')",
    "return bit.tobit(0/0)",
    "return bit.lshift(1, 1e300)",
    "return cjson.encode(1/0)",
    "return cjson.encode(function() end)",
    "return cjson.encode({[{}] = 1})",
    "return cjson.encode_max_depth(0)",
    "return ({})[nil]",
    "local t = {} t[0/0] = 1",
    "return #('x' .. ('\\0'):rep(10))",
    "collectgarbage('collect') return collectgarbage('count')",
    "table.foreach({1, 2}, function() end) table.foreachi({1}, function() end) return table.maxn({1, 2, 3})",
    "return table.concat({1, 2, {}})",
    "return math.random(0)",
];

#[test]
fn deep_scripts_fit_a_small_stack() {
    // The schedulers of Erlang that apply the log have 320 KiB.
    let run = || {
        for source in DEEP {
            eprintln!("{source}");
            let _ = outcome(source);
        }
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread.spawn(run).expect("a thread").join().expect("no panic");
}

#[test]
fn memory_is_limited() {
    for source in [
        "local t = {} for i = 1, 100 do t[i] = ('x'):rep(1000000) .. i end",
        "local t = {} while true do t[#t + 1] = ('y'):rep(4000) .. #t end",
        "local t = {} while pcall(function() t[#t + 1] = ('y'):rep(100000) .. #t end) do end return 1",
    ] {
        let job = Job {
            source: source.as_bytes(),
            keys: &[],
            arguments: &[],
            limits: Limits { steps: 1 << 40, bytes: 1 << 20 },
        };
        assert_eq!(run(&job, &mut Echo).0, Outcome::Stopped(Stop::Memory), "{source}");
    }
}

/// Values of a table beyond the references that the interpreter has for Rust.
#[test]
fn libraries_take_tables_of_any_size() {
    let table = "local t = {} for i = 1, 20000 do t[i] = 'a' .. i end ";
    let keyed = "local t = {} for i = 1, 20000 do t['a' .. i] = 'b' .. i end ";
    let sizes = [
        (table, "#cjson.encode(t)", 168_895),
        (keyed, "#cjson.encode(t)", 337_789),
        (table, "#cmsgpack.pack(t)", 128_897),
        (keyed, "#cmsgpack.pack(t)", 257_791),
        (table, "#cjson.decode(cjson.encode(t))", 20_000),
        (table, "#cmsgpack.unpack(cmsgpack.pack(t))", 20_000),
        (table, "#redis.call(unpack(t, 1, 7900))", 7_900),
        (table, "#{cmsgpack.unpack(cmsgpack.pack(unpack(t, 1, 7900)))}", 7_900),
    ];
    for (made, expression, size) in sizes {
        let source = format!("{made} return {expression}");
        let limits = Limits { steps: 20_000_000, ..LIMITS };
        let job = Job { source: source.as_bytes(), keys: &[], arguments: &[], limits };
        assert_eq!(run(&job, &mut Echo).0, Outcome::Reply(Value::Integer(size)), "{expression}");
    }
    for call in [
        "cmsgpack.unpack, ('\\161a'):rep(20000)",
        "struct.unpack, ('b'):rep(20000), ('x'):rep(20000)",
    ] {
        let error = text(&format!("return select(2, pcall({call}))"));
        assert!(error.contains("too many results to unpack"), "{call}: {error}");
    }
    let many = "local function f(...) if select('#', ...) > 9000 then return cjson.encode(...) end \
                return f('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', ...) end return f(unpack(t, 1, 7900))";
    let error = text(&format!("{table} {many}"));
    assert!(error.contains("too many arguments"), "{error}");
}

/// A thread of the binding has no protected call, which would catch the error: the process ended.
#[test]
fn memory_may_end_while_references_are_made() {
    let source = "local t = {} for i = 1, 7000 do t[i] = 'a' .. i end \
                  return #cmsgpack.pack(unpack(t))";
    let mut ends = [0; 2];
    for bytes in (300..2_000).step_by(20).map(|kib: usize| kib << 10) {
        let limits = Limits { steps: 2_000_000, bytes };
        let job = Job { source: source.as_bytes(), keys: &[], arguments: &[], limits };
        match run(&job, &mut Echo).0 {
            Outcome::Reply(Value::Integer(length)) if length > 7_000 => ends[0] += 1,
            Outcome::Stopped(Stop::Memory) => ends[1] += 1,
            other => panic!("{bytes}: {other:?}"),
        }
    }
    assert!(ends.iter().all(|count| *count > 5), "{ends:?}");
}

/// `load` calls its reader again after the end, while nothing else refers to the name of the text.
#[test]
fn the_name_of_a_loaded_text_is_kept() {
    let source = "local calls = 0 \
                  local function reader() \
                      calls = calls + 1 \
                      if calls ~= 2 then return nil end \
                      for i = 1, 20000 do local x = ('y'):rep(40) .. i end \
                      return 'error(1, 0 + 1)' \
                  end \
                  local loaded = load(reader) \
                  for i = 1, 2000 do local x = ('z'):rep(7) .. i end \
                  return select(2, pcall(function() loaded() end))";
    assert_eq!(text(source), "(load):1: 1");
}

/// What a call costs follows from the lengths of its arguments.
#[test]
fn long_arguments_count() {
    let text = "local s = (' '):rep(1000000) ";
    let calls = [
        ("struct.size(s)", 1_000_000),
        ("struct.pack(s)", 1_000_000),
        ("struct.unpack(s, '')", 1_000_000),
        ("cjson.encode(s)", 250_000),
        ("cjson.decode(s .. '1')", 500_000),
        ("redis.sha1hex(s)", 1_000_000),
    ];
    for (call, least) in calls {
        let source = format!("{text} local _ = {call}");
        let limits = Limits { steps: 20_000_000, ..LIMITS };
        let job = Job { source: source.as_bytes(), keys: &[], arguments: &[], limits };
        let steps = run(&job, &mut Echo).1;
        assert!(steps >= least, "{call}: {steps}");
    }
    // A numeral of 190 digits, and the text of a number with as many.
    let steps = |source: &str| {
        let job = Job { source: source.as_bytes(), keys: &[], arguments: &[], limits: LIMITS };
        run(&job, &mut Echo).1
    };
    let least = steps("local s = ('1'):rep(190) for i = 1, 100 do local x = s end");
    assert!(
        steps("local s = ('1'):rep(190) for i = 1, 100 do local x = s + 1 end") > least + 9_000
    );
    assert!(steps("for i = 1, 100 do ('%99.99f'):format(1e308) end") > 160_000);
}

#[test]
fn every_run_takes_the_same_steps() {
    for source in ENDLESS.iter().chain(DEEP).take(60) {
        let job = Job { source: source.as_bytes(), keys: &[], arguments: &[], limits: LIMITS };
        let first = run(&job, &mut Echo);
        // Another thread has other addresses.
        let source = source.to_string();
        let again = std::thread::spawn(move || {
            let _garbage: Vec<Vec<u8>> = (0..1000).map(|len| vec![0; len]).collect();
            let job = Job { source: source.as_bytes(), keys: &[], arguments: &[], limits: LIMITS };
            run(&job, &mut Echo)
        });
        assert_eq!(
            first,
            again.join().expect("no panic"),
            "{}",
            String::from_utf8_lossy(job.source)
        );
    }
}

/// A log is replayed by later versions, and the members of a cluster may have two of them. Where one
/// stops a script and the other does not, their records differ. So another number here is another
/// format of batches (`docs/internals/batch-format.md`).
#[rustfmt::skip]
#[test]
fn steps_are_those_of_earlier_versions() {
    for (source, expected) in [
        ("return 1", 119),
        ("for i = 1, 1000 do local x = i * 2 end", 2320),
        ("local t = {} for i = 1, 100 do t[i] = tostring(i) end return table.concat(t, ',')", 3102),
        ("for i = 1, 10 do redis.call('a', KEYS[1], ARGV[1], i) end", 3706),
        ("return redis.pcall('fail').err", 370),
        ("local s = ('ab'):rep(1000) return #s:gsub('a', 'bc') + s:find('ba', 100, true)", 7987),
        ("local f = function(n) return n end for i = 1, 50 do pcall(f, i) end", 798),
        ("return cjson.encode({a = {1, 2, 3}, b = 'c'})", 1907),
        ("return #cmsgpack.pack({1, 2, {x = 'y'}})", 1166),
        ("local t = {3, 1, 2} table.sort(t) return t", 481),
        ("return string.format('%5.2f %d %s', 1.5, 7, 'x')", 287),
        ("error('x')", 420),
    ] {
        let job = Job { source: source.as_bytes(), keys: &[b"k"], arguments: &[b"a"], limits: LIMITS };
        assert_eq!(run(&job, &mut Echo).1, expected, "{source}");
    }
}

#[test]
fn tables_are_traversed_in_the_same_order() {
    let source = "local t, o = {}, {}
        for i = 1, 200 do
            local k = (i % 3 == 0) and {} or (i % 3 == 1) and function() end or 'k' .. i
            t[k] = i
            if i % 5 == 0 then t[k] = nil end
        end
        for k, v in pairs(t) do o[#o + 1] = v end
        return table.concat(o, ' ')";
    let first = text(source);
    for _ in 0..5 {
        let source = source.to_owned();
        let again = std::thread::spawn(move || {
            let _garbage: Vec<Vec<u8>> = (0..777).map(|len| vec![0; len]).collect();
            text(&source)
        });
        assert_eq!(first, again.join().expect("no panic"));
    }
}
