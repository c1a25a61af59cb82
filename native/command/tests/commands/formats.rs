//! The formats of the log: which commands each has, and their bytes.
//!
//! The files `formats/N.txt` have commands that format N added, as the last version wrote them that
//! knew no later format: the bytes, and what they mean. Their lines never change, except for new
//! names of variants and fields in their second column; the file of a format that no release has
//! gets new lines.

use todana_command::testing::{Dice, numbers};
use todana_command::{Command, FORMAT_MAX, FORMAT_MIN, Scratch};

const FORMATS: [&str; 6] = [
    include_str!("formats/1.txt"),
    include_str!("formats/2.txt"),
    include_str!("formats/3.txt"),
    // These have no command of their own.
    "",
    "",
    include_str!("formats/6.txt"),
];

fn bytes_of(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn commands_of_earlier_versions_keep_their_bytes_and_their_meaning() {
    assert_eq!(FORMATS.len(), usize::from(FORMAT_MAX - FORMAT_MIN + 1));
    let mut found = Vec::new();
    for (format, lines) in (FORMAT_MIN..).zip(FORMATS) {
        for line in lines.lines() {
            let (hex, meaning) = line.split_once('\t').expect("two columns");
            let bytes = bytes_of(hex);
            let mut scratch = Scratch::default();
            let (command, rest) = Command::decode(&bytes, &mut scratch).expect("a command");
            assert_eq!((&*format!("{command:?}"), rest), (meaning, &[][..]));
            assert_eq!(command.format(), format, "{meaning}");
            let mut again = Vec::new();
            command.encode(&mut again);
            assert_eq!(again, bytes, "{meaning}");
            found.push(u16::from(bytes[1]));
        }
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, numbers(), "a format has a new command without an example");
}

#[test]
fn no_variant_is_left_out() {
    // Gaps are numbers of commands that were removed, or that no released version had.
    let known = (0..=u8::MAX).filter(|variant| {
        let bytes = [&[1, *variant][..], &[0; 64]].concat();
        Command::decode(&bytes, &mut Scratch::default()).is_ok()
    });
    assert_eq!(known.map(u16::from).collect::<Vec<_>>(), numbers());
    for number in numbers() {
        let format = Dice(1).command(number).format();
        let expected = match number {
            0..=41 => 1,
            42..=43 => 2,
            44..=57 => 3,
            _ => 6,
        };
        assert_eq!(format, expected, "{number}");
    }
}
