//! The key positions of the table, compared with the keys of the commands that the handlers make.

use crate::dispatch;
use crate::request::{Request, ScriptLimits, pairs};
use crate::table::{NAMES, Name};
use std::collections::BTreeSet;
use todana_command::testing::keys_of;

/// A request of a command whose arguments cannot all be numbers.
fn special(name: Name) -> Option<&'static [&'static str]> {
    Some(match name {
        Name::BitCount => &["bitcount", "1", "2", "3"],
        Name::BitField | Name::BitFieldRo => &["bitfield", "1", "get", "u8", "0"],
        Name::BitOp => &["bitop", "or", "1", "2", "3"],
        Name::BitPos => &["bitpos", "2", "1"],
        Name::DelEx => &["delex", "1", "ifeq", "2"],
        Name::Eval | Name::EvalSha | Name::EvalRo | Name::EvalShaRo => {
            &["eval", "1", "2", "3", "4", "5"]
        }
        Name::Restore => &["restore", "1", "0", "a payload"],
        Name::SetBit => &["setbit", "3", "2", "1"],
        _ => return None,
    })
}

#[test]
fn the_key_positions_are_those_of_the_commands() {
    let mut unseen = Vec::new();
    for name in NAMES {
        let spec = name.spec();
        let least = usize::from(spec.arity.unsigned_abs());
        let own = spec.name.split('|').count();
        let mut is_seen = false;
        // The fewest arguments, and some more.
        for count in least..least + 4 {
            let numbers: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
            let mut words: Vec<&[u8]> = spec.name.split('|').map(str::as_bytes).collect();
            words.extend(numbers[own..].iter().map(|number| number.as_bytes()));
            if let Some(special) = special(*name) {
                words = special.iter().map(|word| word.as_bytes()).collect();
            }
            if !spec.takes(words.len()) {
                continue;
            }
            let script_limits = ScriptLimits { steps_max: 1, bytes_max: 1 };
            let request = Request {
                name: *name,
                arguments: &words,
                now_ms: 1,
                value_bytes_max: 1 << 20,
                script_limits,
            };
            let pairs = pairs(&words);
            let Some(built) = dispatch::build(&request, &pairs, 0, Some(b"return 1")) else {
                // The session answers these; one of them has keys.
                assert!(spec.keys.is_empty() || *name == Name::Watch, "{}", spec.name);
                is_seen = true;
                break;
            };
            let Ok((command, _)) = built else { continue };
            is_seen = true;
            let keys: BTreeSet<&[u8]> = keys_of(&command).into_iter().collect();
            let named: BTreeSet<&[u8]> = spec.keys_in(&words).map(|(at, _)| words[at]).collect();
            assert_eq!(named, keys, "the key positions of {}: {words:?}", spec.name);
        }
        if !is_seen {
            unseen.push(spec.name);
        }
    }
    assert!(unseen.is_empty(), "no request of {unseen:?}: it needs one in `special`");
}
