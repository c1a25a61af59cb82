//! A host of Kyoto Tycoon without a server: see [`FakeHost`](todana_protocol::testing::FakeHost).

use super::{KyotoDatabase, KyotoSettings, Settings, Signals};
use todana_protocol::testing::Part;

/// A host of Kyoto Tycoon.
pub type FakeHost = todana_protocol::testing::FakeHost<KyotoPart>;

/// What only Kyoto Tycoon needs of its host.
#[derive(Debug, Default)]
pub struct KyotoPart {
    /// Settings of the Kyoto Tycoon protocol.
    pub kyoto: KyotoSettings,
    /// Names of the waits, in order.
    pub waits: Vec<Vec<u8>>,
    /// Whether a signal ends each wait.
    pub signalled: bool,
    /// Names signalled, and whether all waiters were signalled.
    pub signals: Vec<(Vec<u8>, bool)>,
    /// How many clients wait for any name.
    pub waiting: usize,
}

impl Part for KyotoPart {
    fn small(circumstances: u8) -> KyotoPart {
        let (kyoto, signalled) = (small_kyoto(), circumstances & 4 != 0);
        KyotoPart { kyoto, signalled, ..KyotoPart::default() }
    }
}

/// Two databases, of which the second is persistent, small bodies, and an allowed origin.
fn small_kyoto() -> KyotoSettings {
    let persistent = KyotoDatabase { persistent: true, ..KyotoDatabase::default() };
    let databases = vec![KyotoDatabase::default(), persistent];
    let origins = vec!["https://example.org".into()];
    KyotoSettings { databases, body_bytes_max: 4_000, origins, ..KyotoSettings::default() }
}

impl Settings for FakeHost {
    fn kyoto(&self) -> &KyotoSettings {
        &self.part.kyoto
    }
}

impl Signals for FakeHost {
    fn begin_wait(&mut self, name: &[u8]) {
        self.part.waits.push(name.to_vec());
    }
    fn end_wait(&mut self) -> bool {
        self.part.signalled
    }
    fn signal(&mut self, name: &[u8], all: bool) -> usize {
        self.part.signals.push((name.to_vec(), all));
        self.part.waiting
    }
}
