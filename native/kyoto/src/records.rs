//! Procedures on one record: `set` to `seize`, and `clear`.

use super::failure::Failure;
use super::inputs::Inputs;
use super::numbers;
use super::outcome::{Outcome, ask, order};
use super::outputs::Outputs;
use super::turn::Turn;
use crate::Host;
use todana_command::{
    Command, Condition, DatabaseCommand, Expires, KeyCommand, Origin, Record, Set, Side,
    StringCommand,
};

/// The result of a procedure.
pub(super) type Done = Result<(), Failure>;

/// `set`, `add` and `replace`, which differ in their condition.
pub(super) fn set<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    inputs: &Inputs<'_>,
    condition: Condition,
) -> Done {
    let (key, value) = (required(inputs, b"key")?, required(inputs, b"value")?);
    admit(turn, key, value)?;
    let expires = expires(turn, database, inputs);
    let set = Set { condition, expires, ..Set::new(key, value) };
    order(turn, database, &Command::String(StringCommand::Set(set))).map(drop)
}

/// `append`.
pub(super) fn append<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    inputs: &Inputs<'_>,
) -> Done {
    let (key, bytes) = (required(inputs, b"key")?, required(inputs, b"value")?);
    admit(turn, key, bytes)?;
    let expires = expires(turn, database, inputs);
    let (side, create, condition) = (Side::Append, true, Condition::Always);
    let command =
        Command::String(StringCommand::Concat { key, bytes, side, create, condition, expires });
    order(turn, database, &command).map(drop)
}

/// `increment`.
pub(super) fn increment<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    inputs: &Inputs<'_>,
    outputs: &mut Outputs,
) -> Done {
    let (key, delta) = (required(inputs, b"key")?, required(inputs, b"num")?);
    admit(turn, key, b"")?;
    let origin = match inputs.get(b"orig") {
        None => Origin::From(0),
        Some(b"try") => Origin::Refuse,
        Some(b"set") => Origin::Set,
        Some(number) => match numbers::integer(number) {
            i64::MIN => Origin::Refuse,
            i64::MAX => Origin::Set,
            number => Origin::From(number),
        },
    };
    let (delta, expires) = (numbers::integer(delta), expires(turn, database, inputs));
    let command = Command::String(StringCommand::IncrementBinary { key, delta, origin, expires });
    match ask(turn, database, &command, |_| {}) {
        // Kyoto Tycoon reports this number as a failure although it was stored.
        Outcome::Number(i64::MIN) | Outcome::Refused(_) => Err(Failure::INCONSISTENT),
        Outcome::Number(number) => {
            outputs.insert_number("num", number);
            Ok(())
        }
        outcome => outcome.check().map(drop),
    }
}

/// `increment_double`.
pub(super) fn increment_double<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    inputs: &Inputs<'_>,
    outputs: &mut Outputs,
) -> Done {
    let (key, delta) = (required(inputs, b"key")?, required(inputs, b"num")?);
    admit(turn, key, b"")?;
    let origin = match inputs.get(b"orig") {
        None => Origin::From(0.0_f64.to_bits()),
        Some(b"try") => Origin::Refuse,
        Some(b"set") => Origin::Set,
        Some(number) => match numbers::fraction(number) {
            f64::NEG_INFINITY => Origin::Refuse,
            f64::INFINITY => Origin::Set,
            number => Origin::From(number.to_bits()),
        },
    };
    let delta_bits = numbers::fraction(delta).to_bits();
    let expires = expires(turn, database, inputs);
    let command =
        Command::String(StringCommand::IncrementFraction { key, delta_bits, origin, expires });
    let mut number = f64::NAN;
    let outcome = ask(turn, database, &command, |record| {
        let stored = record.and_then(|record| numbers::stored_fraction(record.value));
        number = stored.unwrap_or(f64::NAN);
    });
    match outcome {
        Outcome::Refused(_) => return Err(Failure::INCONSISTENT),
        outcome => outcome.check()?,
    };
    if number.is_nan() {
        return Err(Failure::INCONSISTENT);
    }
    outputs.insert(b"num", numbers::fraction_text(number).as_bytes());
    Ok(())
}

/// `cas`.
pub(super) fn cas<H: Host>(turn: &mut Turn<'_, H>, database: usize, inputs: &Inputs<'_>) -> Done {
    let key = required(inputs, b"key")?;
    let (old, new) = (inputs.get(b"oval"), inputs.get(b"nval"));
    admit(turn, key, new.unwrap_or_default())?;
    let expires = expires(turn, database, inputs);
    order(turn, database, &Command::String(StringCommand::CompareValue { key, old, new, expires }))
        .map(drop)
}

/// `remove`.
pub(super) fn remove<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    inputs: &Inputs<'_>,
) -> Done {
    let key = required(inputs, b"key")?;
    match order(turn, database, &Command::Key(KeyCommand::Delete { keys: &[key] }))? {
        Outcome::Number(0) => Err(Failure::NO_RECORD),
        _ => Ok(()),
    }
}

/// `get` and `seize`, depending on the command.
pub(super) fn read<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    inputs: &Inputs<'_>,
    outputs: &mut Outputs,
    command: fn(&[u8]) -> Command<'_>,
) -> Done {
    let key = required(inputs, b"key")?;
    look(turn, database, &command(key), |record, is_persistent| {
        outputs.insert(b"value", record.value);
        add_expiry(record.expires_at_ms, is_persistent, outputs);
    })
}

/// `check`.
pub(super) fn check<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    inputs: &Inputs<'_>,
    outputs: &mut Outputs,
) -> Done {
    let key = required(inputs, b"key")?;
    let is_persistent = turn.database(database).persistent;
    let outcome = ask(turn, database, &Command::Key(KeyCommand::Describe { key }), |_| {});
    if let Outcome::Described(length, expires_at_ms) = counted(turn, outcome)? {
        outputs.insert_number("vsiz", length);
        add_expiry(expires_at_ms, is_persistent, outputs);
    }
    Ok(())
}

/// `clear`.
pub(super) fn clear<H: Host>(turn: &mut Turn<'_, H>, database: usize) -> Done {
    order(turn, database, &Command::Database(DatabaseCommand::Clear { at_ms: None })).map(drop)
}

/// Looks up one record and counts the look-up.
fn look<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    command: &Command<'_>,
    mut visit: impl FnMut(Record<'_>, bool),
) -> Done {
    let is_persistent = turn.database(database).persistent;
    let outcome = ask(turn, database, command, |record| {
        if let Some(record) = record {
            visit(record, is_persistent);
        }
    });
    counted(turn, outcome).map(drop)
}

/// Counts a look-up, which fails without a record.
fn counted<H: Host>(turn: &mut Turn<'_, H>, outcome: Outcome) -> Result<Outcome, Failure> {
    match outcome.check()? {
        Outcome::Absent => {
            turn.lookups.1 += 1;
            Err(Failure::NO_RECORD)
        }
        outcome => {
            turn.lookups.0 += 1;
            Ok(outcome)
        }
    }
}

/// The value of a required input.
pub(super) fn required<'i>(inputs: &'i Inputs<'_>, name: &[u8]) -> Result<&'i [u8], Failure> {
    inputs.get(name).ok_or(Failure::INVALID_PARAMETERS)
}

/// Refuses keys and values that exceed their limits.
pub(super) fn admit<H: Host>(turn: &Turn<'_, H>, key: &[u8], value: &[u8]) -> Done {
    let limits = turn.host.limits();
    if key.len() > limits.key_bytes_max {
        Err(Failure::KEY_TOO_LONG)
    } else if value.len() > limits.value_bytes_max {
        Err(Failure::VALUE_TOO_LONG)
    } else {
        Ok(())
    }
}

/// The expiry that a write sets.
pub(super) fn expires<H: Host>(
    turn: &Turn<'_, H>,
    database: usize,
    inputs: &Inputs<'_>,
) -> Expires {
    if turn.database(database).persistent {
        return Expires::Never;
    }
    numbers::expires(inputs.get(b"xt").map(numbers::integer), turn.host.now_ms())
}

/// Adds `xt` if the record expires.
pub(super) fn add_expiry(expires_at_ms: Option<u64>, is_persistent: bool, outputs: &mut Outputs) {
    if let (Some(xt), false) = (expires_at_ms.and_then(numbers::xt_of), is_persistent) {
        outputs.insert_number("xt", xt);
    }
}
