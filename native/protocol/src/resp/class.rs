//! What each command does to records.

use super::table::Name;
use crate::class::Class;

impl Name {
    /// What requests of this command do to records. A container answers only for unknown
    /// subcommands.
    pub(super) fn class(self) -> Class {
        match self {
            Name::Get
            | Name::StrLen
            | Name::GetRange
            | Name::SubStr
            | Name::MGet
            | Name::Lcs
            | Name::GetBit
            | Name::BitCount
            | Name::BitPos
            | Name::Exists
            | Name::Ttl
            | Name::PTtl
            | Name::ExpireTime
            | Name::PExpireTime
            | Name::Type
            | Name::KeysOf
            | Name::Scan
            | Name::Range
            | Name::Prefix
            | Name::RandomKey
            | Name::Touch
            | Name::DbSize
            | Name::ObjectEncoding
            | Name::ObjectFreq
            | Name::ObjectIdleTime
            | Name::ObjectRefCount
            | Name::Watch
            | Name::MemoryUsage
            | Name::ClusterCountKeysInSlot
            | Name::EvalRo
            | Name::EvalShaRo
            | Name::ClusterGetKeysInSlot => Class::Read,

            Name::Set
            | Name::SetNx
            | Name::SetEx
            | Name::PSetEx
            | Name::GetSet
            | Name::GetDel
            | Name::GetEx
            | Name::Append
            | Name::SetRange
            | Name::MSet
            | Name::MSetNx
            | Name::Incr
            | Name::Decr
            | Name::IncrBy
            | Name::DecrBy
            | Name::IncrByFloat
            | Name::SetBit
            | Name::Del
            | Name::DelEx
            | Name::DelIfEq
            | Name::Unlink
            | Name::Expire
            | Name::PExpire
            | Name::ExpireAt
            | Name::PExpireAt
            | Name::Persist
            | Name::RenameTo
            | Name::RenameNx
            | Name::CopyTo
            | Name::Move
            | Name::FlushDb
            | Name::FlushAll
            | Name::SwapDb
            | Name::Eval
            | Name::EvalSha
            | Name::Exec => Class::Write,

            Name::Object
            | Name::ObjectHelp
            | Name::Multi
            | Name::Discard
            | Name::Unwatch
            | Name::Script
            | Name::ScriptExists
            | Name::ScriptFlush
            | Name::ScriptHelp
            | Name::ScriptKill
            | Name::ScriptLoad
            | Name::Hello
            | Name::Auth
            | Name::Ping
            | Name::Echo
            | Name::Select
            | Name::Quit
            | Name::Reset
            | Name::ReadOnly
            | Name::ReadWrite
            | Name::TodanaRead
            | Name::TodanaIndex
            | Name::TodanaAfter
            | Name::Client
            | Name::ClientGetName
            | Name::ClientHelp
            | Name::ClientId
            | Name::ClientInfo
            | Name::ClientKill
            | Name::ClientList
            | Name::ClientNoEvict
            | Name::ClientNoTouch
            | Name::ClientReply
            | Name::ClientSetInfo
            | Name::ClientSetName
            | Name::Info
            | Name::Config
            | Name::ConfigGet
            | Name::ConfigHelp
            | Name::ConfigResetStat
            | Name::ConfigRewrite
            | Name::ConfigSet
            | Name::Command
            | Name::CommandCount
            | Name::CommandDocs
            | Name::CommandGetKeys
            | Name::CommandGetKeysAndFlags
            | Name::CommandHelp
            | Name::CommandInfo
            | Name::CommandList
            | Name::BgRewriteAof
            | Name::BgSave
            | Name::LastSave
            | Name::Save
            | Name::Wait
            | Name::WaitAof
            | Name::Role
            | Name::Time
            | Name::Memory
            | Name::MemoryDoctor
            | Name::MemoryHelp
            | Name::MemoryStats
            | Name::SlowLog
            | Name::SlowLogGet
            | Name::SlowLogHelp
            | Name::SlowLogLen
            | Name::SlowLogReset
            | Name::Latency
            | Name::LatencyDoctor
            | Name::LatencyHelp
            | Name::LatencyHistogram
            | Name::LatencyHistory
            | Name::LatencyLatest
            | Name::LatencyReset
            | Name::Debug
            | Name::DebugHelp
            | Name::DebugSleep
            | Name::LolWut
            | Name::Asking
            | Name::Cluster
            | Name::ClusterCountFailureReports
            | Name::ClusterHelp
            | Name::ClusterInfo
            | Name::ClusterKeySlot
            | Name::ClusterLinks
            | Name::ClusterMyId
            | Name::ClusterMyShardId
            | Name::ClusterNodes
            | Name::ClusterReplicas
            | Name::ClusterShards
            | Name::ClusterSlaves
            | Name::ClusterSlots => Class::Local,
        }
    }
}
