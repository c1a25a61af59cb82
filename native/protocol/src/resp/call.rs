//! Commands that the session answers itself: what they work on.

use super::encoder::{Encoder, Failure};
use super::lookup::{self, subcommands};
use super::request::wrong_arity;
use super::server::SLEEP_MS_MAX;
use super::session::State;
use super::table::Name;
use crate::{Host, Next};

/// What happens after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// The next one.
    Continue,
    /// Nothing for so many milliseconds.
    Sleep(u64),
    /// The end of the connection.
    Close,
}

impl Flow {
    /// What a turn ends with that does not go on.
    #[inline]
    pub(super) fn ends(self) -> Option<Next> {
        match self {
            Flow::Continue => None,
            Flow::Sleep(ms) => Some(Next::Sleep { ms }),
            Flow::Close => Some(Next::Close),
        }
    }

    /// What happens after two commands of one request: the end comes in any case, and sleeps add
    /// up to the longest.
    pub(super) fn and(self, other: Flow) -> Flow {
        match (self, other) {
            (Flow::Close, _) | (_, Flow::Close) => Flow::Close,
            (Flow::Continue, flow) | (flow, Flow::Continue) => flow,
            (Flow::Sleep(one), Flow::Sleep(other)) => {
                Flow::Sleep(one.saturating_add(other).min(SLEEP_MS_MAX))
            }
        }
    }
}

/// What became of a command that the session answers itself. A failure is still to be written.
pub(super) type Done = Result<Flow, Failure>;

/// A request that the session answers itself.
pub(super) struct Call<'c, 'o, H> {
    pub(super) name: Name,
    pub(super) arguments: &'c [&'c [u8]],
    pub(super) state: &'c mut State,
    pub(super) encoder: &'c mut Encoder<'o>,
    pub(super) host: &'c mut H,
}

impl<'c, H: Host> Call<'c, '_, H> {
    pub(super) fn argument(&self, at: usize) -> &'c [u8] {
        self.arguments[at]
    }

    pub(super) fn ok(&mut self) -> Done {
        self.encoder.ok();
        Ok(Flow::Continue)
    }

    /// HELP: lists the subcommands that the command has, two lines for each.
    pub(super) fn help(&mut self) -> Done {
        let container = self.name.spec().container().and_then(|it| lookup::command(it.as_bytes()));
        let Some(container) = container else { return Err(wrong_arity(self.name)) };
        let title = container.spec().name.to_ascii_uppercase();
        let names: Vec<Name> = subcommands(container).collect();
        self.encoder.array(1 + 2 * names.len());
        let usage = "<subcommand> [<arg> [value] [opt] ...]. Subcommands are:";
        self.encoder.simple(&format!("{title} {usage}"));
        for name in names {
            let spec = name.spec();
            let word = spec.own_name().to_ascii_uppercase();
            let arguments = super::syntax::for_people(spec.syntax);
            self.encoder.simple(format!("{word} {arguments}").trim_end());
            self.encoder.simple(&format!("    {}", spec.summary));
        }
        Ok(Flow::Continue)
    }
}
