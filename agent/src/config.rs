//! The configuration file, and [`Settings`]: the values in force once flags are applied over the file. Unknown keys are
//! errors.
//!
//! A key belongs in the file if its value differs between clusters and not between nodes, and may be changed while
//! agents run. A flag or its environment variable wins over the file, the file over the default.

use std::path::{Path, PathBuf};

use headroom_kit::{
    config::{self, ConfigError},
    log::Filter,
};
use serde::Deserialize;

use crate::args::{
    Args, CpuSourceChoice, MOST_SERVERS, MarginCalibration, ServerAddress, eviction::Eviction,
};

/// Keys of the configuration file; all are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct File {
    log_filter: Option<Filter>,
    publish_fanout: Option<Fanout>,
    webhook_addr: Option<Servers>,
    source: Option<CpuSourceChoice>,
    btf: Option<PathBuf>,
    margin_calibration: Option<MarginCalibration>,
    eviction_hard_memory: Option<Eviction>,
    program_stats: Option<bool>,
}

/// Servers to report to at the same time: 1 to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
struct Fanout(u8);

/// A list of at least one server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<ServerAddress>")]
struct Servers(Vec<ServerAddress>);

/// Settings in force: flags applied over the file and the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub log_filter: Filter,
    /// Number of hint servers to report to at the same time, 1 to 16.
    pub publish_fanout: u8,
    /// Addresses or DNS names of the hint servers; at least one.
    pub webhook_addr: Vec<ServerAddress>,
    pub source: CpuSourceChoice,
    /// Path of the kernel's BTF file.
    pub btf: PathBuf,
    /// Calibration of the margin by outcomes.
    pub margin_calibration: MarginCalibration,
    /// The kubelet's hard eviction threshold of memory.
    pub eviction_hard_memory: Eviction,
    /// True if the kernel counts the runs of BPF programs.
    pub program_stats: bool,
}

/// Reads the file; without a path, all keys are absent.
///
/// # Errors
/// The file cannot be read, or a key is unknown or a value out of range.
pub fn load(file: Option<&Path>) -> Result<File, ConfigError> {
    Ok(file.map(config::load).transpose()?.unwrap_or_default())
}

impl TryFrom<u64> for Fanout {
    type Error = String;

    fn try_from(servers: u64) -> Result<Self, String> {
        u8::try_from(servers)
            .ok()
            .filter(|servers| (1..=MOST_SERVERS).contains(servers))
            .map(Self)
            .ok_or_else(|| format!("{servers} is outside 1..{MOST_SERVERS}"))
    }
}

impl TryFrom<Vec<ServerAddress>> for Servers {
    type Error = &'static str;

    fn try_from(servers: Vec<ServerAddress>) -> Result<Self, &'static str> {
        if servers.is_empty() {
            return Err("names no server");
        }
        Ok(Self(servers))
    }
}

impl Settings {
    /// Applies the flags over the file.
    pub fn resolve(args: &Args, file: &File) -> Self {
        let File {
            log_filter,
            publish_fanout,
            webhook_addr,
            source,
            btf,
            margin_calibration,
            eviction_hard_memory,
            program_stats,
        } = file;
        Self {
            log_filter: args.over("log_filter", log_filter.as_ref(), &args.log.log_filter),
            publish_fanout: args.over(
                "publish_fanout",
                publish_fanout.as_ref().map(|Fanout(servers)| servers),
                &args.publish_fanout,
            ),
            webhook_addr: args.over(
                "webhook_addr",
                webhook_addr.as_ref().map(|Servers(servers)| servers),
                &args.webhook_addr,
            ),
            source: args.over("source", source.as_ref(), &args.source),
            btf: args.over("btf", btf.as_ref(), &args.btf),
            margin_calibration: args.over(
                "margin_calibration",
                margin_calibration.as_ref(),
                &args.margin_calibration,
            ),
            eviction_hard_memory: args.over(
                "eviction_hard_memory",
                eviction_hard_memory.as_ref(),
                &args.eviction_hard_memory,
            ),
            program_stats: args.over("program_stats", program_stats.as_ref(), &args.program_stats),
        }
    }

    /// Keys whose new values in `next` take effect only after a restart.
    pub fn waiting(&self, next: &Self) -> Vec<&'static str> {
        let Self {
            log_filter: _,
            publish_fanout: _,
            webhook_addr: _,
            margin_calibration: _,
            eviction_hard_memory: _,
            source,
            btf,
            program_stats,
        } = self;
        let changes = [
            ("source", *source != next.source),
            ("btf", *btf != next.btf),
            ("programStats", *program_stats != next.program_stats),
        ];
        changes
            .into_iter()
            .filter_map(|(key, has_changed)| has_changed.then_some(key))
            .collect()
    }
}

#[cfg(test)]
mod tests;
