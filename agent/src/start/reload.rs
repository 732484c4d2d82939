//! Applies changes of the configuration file to the running agent, and logs the keys that need a restart.

use std::path::PathBuf;

use headroom_kit::{config, log::Levels};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::CONFIG_POLL;
use crate::{
    args::{Args, ServerAddress},
    config::{File, Settings},
};

/// The parts of an agent that can change while it runs.
pub(super) struct Changeable {
    pub(super) levels: Levels,
    pub(super) servers_tx: watch::Sender<Vec<ServerAddress>>,
    pub(super) fanout_tx: watch::Sender<u8>,
    pub(super) settings_tx: watch::Sender<Settings>,
}

/// Follows the file until the agent ends. Keys that need a restart are logged and keep their values.
pub(super) async fn follow(
    (path, file): (PathBuf, File),
    args: Args,
    parts: Changeable,
    stopping: CancellationToken,
) {
    let began = Settings::resolve(&args, &file);
    let mut logged = Vec::new();
    let apply = |file: &File| {
        let now = Settings::resolve(&args, file);
        let waiting = began.waiting(&now);
        if waiting != logged && !waiting.is_empty() {
            warn!(
                keys = waiting.join(", "),
                "changes of these keys take effect when the agent restarts"
            );
        }
        logged = waiting;
        parts.apply(&now);
    };
    config::follow(path, file, CONFIG_POLL, stopping, apply).await;
}

impl Changeable {
    fn apply(&self, settings: &Settings) {
        let Settings {
            log_filter,
            publish_fanout,
            webhook_addr,
            // The task `decide` applies these.
            margin_calibration: _,
            eviction_hard_memory: _,
            // These need a restart.
            source: _,
            btf: _,
            program_stats: _,
        } = settings;
        self.levels.set(log_filter);
        let replace = |servers: &mut Vec<ServerAddress>| {
            let is_new = servers != webhook_addr;
            servers.clone_from(webhook_addr);
            is_new
        };
        self.servers_tx.send_if_modified(replace);
        self.fanout_tx
            .send_if_modified(|fanout| std::mem::replace(fanout, *publish_fanout) != *publish_fanout);
        self.settings_tx.send_replace(settings.clone());
    }
}
