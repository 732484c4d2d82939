//! Watches files that are replaced while a process runs, and wakes a reader to read them again.
//!
//! Configuration files and the serving key pair are watched this way.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _, event::EventKind};
use tokio::{
    select,
    sync::Notify,
    time::{Interval, MissedTickBehavior, interval, sleep},
};
use tracing::warn;

use crate::log::chain;

/// Delay after an event before the files are read: writers replace one file after the other.
const SETTLE: Duration = Duration::from_millis(100);

/// Changes of some files. The directories are watched, not the files: the kubelet swaps a symlink of a volume, which
/// does not change the file itself. A poll covers events that the file system does not send.
pub struct Changes {
    changed: Arc<Notify>,
    ticks: Interval,
    /// Events arrive while the watcher exists.
    _watcher: Option<RecommendedWatcher>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("poll", &self.ticks.period())
            .finish_non_exhaustive()
    }
}

impl Changes {
    /// Watches these files; every `poll` they count as changed in any case.
    pub fn watch(files: &[&Path], poll: Duration) -> Self {
        let changed = Arc::new(Notify::new());
        let watcher = watcher(files, Arc::clone(&changed)).inspect_err(
            |error| warn!(?files, error = %chain(error), "cannot watch for file events; the files are only polled"),
        );
        let mut ticks = interval(poll);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            changed,
            ticks,
            _watcher: watcher.ok(),
        }
    }

    /// Waits until the files should be read again; returns immediately the first time. Cancel safe.
    pub async fn next(&mut self) {
        select! {
            () = self.changed.notified() => sleep(SETTLE).await,
            _ = self.ticks.tick() => {}
        }
    }
}

/// Returns true if an event may be a change of content. Reading the files is an event too: reacting to it would never
/// end.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(_))
}

fn watcher(files: &[&Path], changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error means that events were lost.
        if event.map_or(true, |event| is_change(event.kind)) {
            changed.notify_one();
        }
    })?;
    let directory = |path: &&Path| match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    for directory in files.iter().map(directory).collect::<BTreeSet<_>>() {
        watcher.watch(&directory, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind, RenameMode};

    use super::*;

    #[test]
    fn own_reads_are_ignored_and_a_renamed_link_is_a_change() {
        assert!(!is_change(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        for kind in [
            EventKind::Create(CreateKind::Any),
            EventKind::Modify(ModifyKind::Name(RenameMode::To)),
            EventKind::Remove(RemoveKind::Any),
        ] {
            assert!(is_change(kind), "{kind:?}");
        }
    }
}
