//! Commands as bytes.

use proptest::prelude::*;
use todana_command::testing::{Dice, number_of, numbers};
use todana_command::{
    Command, Condition, Delta, Expires, Increment, Initial, Malformed, Scratch, StringCommand,
};

fn encoded(command: &Command<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn encoded_commands_decode_and_leave_the_rest(seed: u64, rest: Vec<u8>) {
        for number in numbers() {
            let command = Dice(seed).command(number);
            let mut bytes = encoded(&command);
            prop_assert_eq!(number_of(&command), number);
            prop_assert_eq!(u16::from(bytes[1]), number, "commands keep their numbers");
            let whole = bytes.len();
            bytes.extend_from_slice(&rest);
            let mut scratch = Scratch::default();
            prop_assert_eq!(Command::decode(&bytes, &mut scratch), Ok((command, &rest[..])));
            for end in [0, 1, 2, whole / 2, whole - 1] {
                if end < whole {
                    let cut = Command::decode(&bytes[..end], &mut Scratch::default()).is_err();
                    prop_assert!(cut, "{} of {} bytes", end, whole);
                }
            }
        }
    }

    #[test]
    fn whatever_is_decoded_is_a_command(mut bytes: Vec<u8>, variant in 0..64_u8) {
        bytes.splice(0..0, [1, variant]);
        if let Ok((command, _)) = Command::decode(&bytes, &mut Scratch::default()) {
            let again = encoded(&command);
            let mut scratch = Scratch::default();
            prop_assert_eq!(Command::decode(&again, &mut scratch), Ok((command, &[][..])));
        }
    }

    #[test]
    fn a_flipped_bit_is_malformed_or_another_command(
        seed: u64,
        number in proptest::sample::select(numbers()),
        at: usize,
    ) {
        let mut bytes = encoded(&Dice(seed).command(number));
        let at = at % (bytes.len() * 8);
        bytes[at / 8] ^= 1 << (at % 8);
        let _ = Command::decode(&bytes, &mut Scratch::default());
    }
}

#[test]
fn the_bytes_are_those_of_the_description() {
    let increment = Command::String(StringCommand::Increment(Increment {
        key: b"n",
        delta: Delta::Signed(1),
        initial: Some((Initial::Zero, Expires::Never)),
        condition: Condition::Always,
        expires: Expires::Keep,
        track_access: false,
    }));
    let bytes = b"\x01\x10\x01n\x00\x02\x01\x00\x00\x00\x01\x00";
    assert_eq!(encoded(&increment), bytes);
    let mut scratch = Scratch::default();
    assert_eq!(Command::decode(bytes, &mut scratch), Ok((increment, &[][..])));
}

#[test]
fn lengths_that_lie_are_malformed() {
    let lies: [&[u8]; 7] = [
        b"",
        b"\x02\x1d",
        b"\x01\xff",
        // The number of a removed variant.
        b"\x01\x0d\x01k\x00\x00\x00\x00",
        // The lengths of a key, a list and a number exceed the input.
        b"\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01k",
        b"\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01k",
        b"\x01\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ];
    for bytes in lies {
        let mut scratch = Scratch::default();
        assert_eq!(Command::decode(bytes, &mut scratch), Err(Malformed), "{bytes:x?}");
    }
}
