//! Until the rest of the crate group and the calls of the API are there.

use crate::{atoms, erts};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, LocalPid, NifResult, OwnedEnv, Term, env::SavedTerm};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use todana_command::{Command, Expires, Player, Set};
use todana_group::{Deliver, Outcome, Submission, Submit, Ticket, record};

struct Caller {
    pid: LocalPid,
    saved: Mutex<Option<(OwnedEnv, SavedTerm)>>,
}

impl Deliver for Caller {
    fn deliver(&self, _ticket: Ticket, outcome: Outcome) {
        let Some((env, saved)) = self.saved.lock().take() else { return };
        erts::send(self.pid, |raw| {
            // SAFETY: test code.
            let to = unsafe { Env::new(&(), raw) };
            let term = env.run(|env| {
                let term: Term<'_> = saved.load(env);
                term.in_env(to).as_c_arg()
            });
            // SAFETY: test code.
            let reference = unsafe { Term::new(to, term) };
            let word = match outcome {
                Outcome::Applied(tape) => {
                    let mut player = Player::new(tape);
                    let mut answers = crate::reply::Answers::default();
                    let _ = player.next(&mut answers);
                    match answers.only() {
                        crate::reply::Answer::Number(n) | crate::reply::Answer::Integer(n) => n,
                        crate::reply::Answer::Failed(_) => -1,
                        _ => 0,
                    }
                    .encode(to)
                }
                Outcome::Dropped => atoms::busy().encode(to),
                Outcome::Unknown => atoms::undefined().encode(to),
            };
            (reference, word).encode(to).as_c_arg()
        });
    }
}

static NUMBER: AtomicU64 = AtomicU64::new(1);

fn submit(env: Env<'_>, reference: Term<'_>, command: &Command<'_>) -> NifResult<Atom> {
    let group = super::running::the_group()?;
    let own = OwnedEnv::new();
    let saved = own.save(reference);
    let deliver = Arc::new(Caller { pid: env.pid(), saved: Mutex::new(Some((own, saved))) });
    let ticket = Ticket { place: (u32::MAX, 0), number: NUMBER.fetch_add(1, Relaxed) };
    let mut records = Vec::new();
    record::put_command(&mut records, 0, command);
    group.submit(&mut vec![Submission { records, count: 1, ticket, deliver }]);
    Ok(atoms::ok())
}

#[rustler::nif]
fn group_test_set<'a>(
    env: Env<'a>,
    reference: Term<'a>,
    key: Binary<'a>,
    value: Binary<'a>,
) -> NifResult<Atom> {
    submit(env, reference, &Command::Set(Set::new(key.as_slice(), value.as_slice())))
}

#[rustler::nif]
fn group_test_add<'a>(
    env: Env<'a>,
    reference: Term<'a>,
    key: Binary<'a>,
    delta: i64,
) -> NifResult<Atom> {
    let key = key.as_slice();
    let origin = todana_command::Origin::From(0);
    submit(
        env,
        reference,
        &Command::IncrementBinary { key, delta, origin, expires: Expires::Never },
    )
}
