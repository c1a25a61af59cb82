//! Commands that the session answers itself: what they work on, and who answers which.

use super::encoder::{Encoder, Failure};
use super::lookup::subcommands;
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
    /// Answers it, failures included.
    pub(super) fn run(&mut self) -> Flow {
        self.answer().unwrap_or_else(|failure| {
            self.encoder.error(&failure);
            Flow::Continue
        })
    }

    fn answer(&mut self) -> Done {
        use Name::*;
        match self.name {
            Multi => self.multi(),
            Exec => self.exec(),
            Discard => self.discard(),
            Watch => self.watch(),
            Unwatch => self.unwatch(),
            Hello => self.hello(),
            Auth => self.auth(),
            Ping => self.ping(),
            Echo => self.echo(),
            Select => self.select(),
            Quit => self.quit(),
            Reset => self.reset(),
            ClientGetName => self.client_get_name(),
            ClientId => self.client_id(),
            ClientInfo => self.client_info(),
            ClientKill => self.client_kill(),
            ClientList => self.client_list(),
            ClientNoEvict => self.client_no_evict(),
            ClientNoTouch => self.client_no_touch(),
            ClientReply => self.client_reply(),
            ClientSetInfo => self.client_set_info(),
            ClientSetName => self.client_set_name(),
            Info => self.info(),
            ConfigGet => self.config_get(),
            ConfigResetStat => self.config_reset_stat(),
            ConfigRewrite => self.config_rewrite(),
            ConfigSet => self.config_set(),
            Command | CommandInfo => self.command_info(),
            CommandCount => self.command_count(),
            CommandDocs => self.command_docs(),
            CommandGetKeys => self.command_get_keys(false),
            CommandGetKeysAndFlags => self.command_get_keys(true),
            CommandList => self.command_list(),
            Time => self.time(),
            MemoryDoctor => self.memory_doctor(),
            MemoryStats => self.memory_stats(),
            SlowLogGet => self.slow_log_get(),
            SlowLogLen => self.slow_log_len(),
            SlowLogReset => self.slow_log_reset(),
            LatencyDoctor => self.latency_doctor(),
            LatencyHistogram => self.latency_histogram(),
            LatencyHistory => self.latency_history(),
            LatencyLatest => self.latency_latest(),
            LatencyReset => self.latency_reset(),
            DebugSleep => self.debug_sleep(),
            LolWut => self.lolwut(),
            ObjectHelp => self.help(Object),
            ClientHelp => self.help(Client),
            ConfigHelp => self.help(Config),
            CommandHelp => self.help(Command),
            MemoryHelp => self.help(Memory),
            SlowLogHelp => self.help(SlowLog),
            LatencyHelp => self.help(Latency),
            DebugHelp => self.help(Debug),
            // Containers need a subcommand, and all others go to the waist.
            _ => Err(super::request::wrong_arity(self.name)),
        }
    }

    pub(super) fn argument(&self, at: usize) -> &'c [u8] {
        self.arguments[at]
    }

    pub(super) fn ok(&mut self) -> Done {
        self.encoder.ok();
        Ok(Flow::Continue)
    }

    /// Lists the subcommands of a command, two lines for each.
    fn help(&mut self, container: Name) -> Done {
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
