//! Commands of Redis for data types and features that Todana does not have. Their error says so, and
//! differs from that of a misspelt word.

use super::encoder::Failure;

/// Data types and features, and the commands that need them.
#[rustfmt::skip]
const UNSUPPORTED: [(&str, &[&str]); 9] = [
    ("hashes", &[
        "hdel", "hexists", "hexpire", "hexpireat", "hexpiretime", "hget", "hgetall", "hgetdel",
        "hgetex", "hincrby", "hincrbyfloat", "hkeys", "hlen", "hmget", "hmset", "hpersist",
        "hpexpire", "hpexpireat", "hpexpiretime", "hpttl", "hrandfield", "hscan", "hset",
        "hsetex", "hsetnx", "hstrlen", "httl", "hvals",
    ]),
    ("lists", &[
        "blmove", "blmpop", "blpop", "brpop", "brpoplpush", "lindex", "linsert", "llen", "lmove",
        "lmpop", "lpop", "lpos", "lpush", "lpushx", "lrange", "lrem", "lset", "ltrim", "rpop",
        "rpoplpush", "rpush", "rpushx",
    ]),
    ("sets", &[
        "sadd", "scard", "sdiff", "sdiffstore", "sinter", "sintercard", "sinterstore",
        "sismember", "smembers", "smismember", "smove", "spop", "srandmember", "srem", "sscan",
        "sunion", "sunionstore",
    ]),
    ("sorted sets", &[
        "bzmpop", "bzpopmax", "bzpopmin", "zadd", "zcard", "zcount", "zdiff", "zdiffstore",
        "zincrby", "zinter", "zintercard", "zinterstore", "zlexcount", "zmpop", "zmscore",
        "zpopmax", "zpopmin", "zrandmember", "zrange", "zrangebylex", "zrangebyscore",
        "zrangestore", "zrank", "zrem", "zremrangebylex", "zremrangebyrank", "zremrangebyscore",
        "zrevrange", "zrevrangebylex", "zrevrangebyscore", "zrevrank", "zscan", "zscore",
        "zunion", "zunionstore",
    ]),
    ("streams", &[
        "xack", "xackdel", "xadd", "xautoclaim", "xclaim", "xdel", "xdelex", "xgroup", "xinfo",
        "xlen", "xpending", "xrange", "xread", "xreadgroup", "xrevrange", "xsetid", "xtrim",
    ]),
    ("geospatial indexes", &[
        "geoadd", "geodist", "geohash", "geopos", "georadius", "georadiusbymember",
        "georadiusbymember_ro", "georadius_ro", "geosearch", "geosearchstore",
    ]),
    ("functions", &[
        "fcall", "fcall_ro", "function|dump", "function|load", "function|restore",
    ]),
    ("moves to other servers", &[
        "migrate", "restore-asking",
    ]),
    ("replicas by Redis' protocol", &[
        "failover", "psync", "replconf", "replicaof", "slaveof", "sync",
    ]),
];

/// What a command of Redis needs that is not there, in the plural.
fn missing(word: &[u8]) -> Option<&'static str> {
    let known = |(_, names): &&(&str, &[&str])| {
        names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    UNSUPPORTED.iter().find(known).map(|(what, _)| *what)
}

/// The error of such a command in a script. It has no version, because a script may store it.
pub(super) fn failure_in_script(word: &[u8]) -> Option<Failure> {
    Some(Failure::quoting("ERR '", word, &format!("': {} are not supported.", missing(word)?)))
}

/// The error of a subcommand of Redis that is not there, although its container is.
pub(super) fn subcommand_failure(container: &str, word: &[u8]) -> Option<Failure> {
    failure(&[container.as_bytes(), b"|", word].concat())
}

/// The error of a command of Redis that is not there.
pub(super) fn failure(word: &[u8]) -> Option<Failure> {
    let what = missing(word)?;
    let version = env!("CARGO_PKG_VERSION");
    Some(Failure::quoting(
        "ERR '",
        word,
        &format!("': {what} are not supported by Todana {version}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup;

    #[test]
    fn no_command_is_both_there_and_not() {
        for name in UNSUPPORTED.iter().flat_map(|(_, names)| *names) {
            let (word, subword) = name.split_once('|').unwrap_or((name, ""));
            let found = lookup::command(word.as_bytes());
            let is_there = match subword {
                "" => found.is_some(),
                _ => lookup::subcommand(found.expect(name), subword.as_bytes()).is_some(),
            };
            assert!(!is_there, "{name}");
        }
    }
}
