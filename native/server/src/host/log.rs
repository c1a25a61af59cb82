//! The records, the log of the durable databases, and the cluster.

use super::TurnHost;
use std::sync::Arc;
use todana_command::Databases;
use todana_protocol::{Commits, Log, Persistence, Request};
use todana_resp::Topology;

impl todana_protocol::Store for TurnHost<'_> {
    fn databases(&self) -> &Databases {
        &self.shared.config.databases
    }

    #[inline]
    fn commits(&mut self, database: usize) -> Option<(Log<'_>, &mut Commits)> {
        Some((self.durable_log(database)?, self.commits))
    }

    #[inline]
    fn own_commits(&mut self) -> Option<&mut Commits> {
        if self.shared.durable { Some(self.commits) } else { None }
    }

    fn log(&self, database: usize) -> Option<Log<'_>> {
        self.durable_log(database)
    }

    fn is_playing(&self) -> bool {
        self.commits.is_playing()
    }

    fn commit_is_full(&self) -> bool {
        self.commits.is_full()
    }
}

impl todana_protocol::Durability for TurnHost<'_> {
    fn persistence(&self) -> Arc<Persistence> {
        let keeper = self.shared.config.keeper.as_ref();
        keeper.map_or_else(Arc::default, |keeper| keeper.persistence())
    }

    fn request_persistence(&mut self, request: Request) -> u64 {
        self.shared.config.keeper.as_ref().map_or(0, |keeper| keeper.request(request))
    }
}

impl todana_resp::Cluster for TurnHost<'_> {
    fn topology(&self) -> Option<Arc<Topology>> {
        self.shared.config.keeper.as_ref()?.topology()
    }

    fn is_led_elsewhere(&self) -> bool {
        self.shared.config.keeper.as_ref().is_some_and(|keeper| keeper.is_led_elsewhere())
    }
}
