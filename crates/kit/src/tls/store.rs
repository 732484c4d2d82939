//! The serving key pair: replaced while it serves when its files change, kept when the new files are bad.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _, event::EventKind};
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    select,
    sync::Notify,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{
    Files, TlsError,
    pem::{self, Content, Validity},
};
use crate::{
    log::chain,
    metric::process::{CERTIFICATE_EXPIRY, CERTIFICATE_RELOADS},
};

/// How long files are left to settle after an event: writers replace one file after the other.
const SETTLE: Duration = Duration::from_millis(100);

/// A key pair that connections take at their handshake, so that a replacement counts from the next one on.
pub struct CertStore {
    name: &'static str,
    files: Files,
    current: ArcSwap<Loaded>,
}

struct Loaded {
    key: Arc<CertifiedKey>,
    content: Content,
}

impl fmt::Debug for CertStore {
    /// Leaves out the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            files,
            current: _,
        } = self;
        f.debug_struct("CertStore")
            .field("name", name)
            .field("files", files)
            .finish_non_exhaustive()
    }
}

impl ResolvesServerCert for CertStore {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().key))
    }
}

impl CertStore {
    /// Loads a key pair; `name` stands for it in logs and metrics. A pair that is not valid `now` is served all
    /// the same, and said so: refusing it would not make it better.
    ///
    /// # Errors
    /// A file cannot be read or parsed, the key is another's, the chain is out of order.
    pub fn load(name: &'static str, files: Files, now: SystemTime) -> Result<Arc<Self>, TlsError> {
        let loaded = Loaded::new(name, pem::read_pair(&files)?, &files, now)?;
        Ok(Arc::new(Self {
            name,
            files,
            current: ArcSwap::from_pointee(loaded),
        }))
    }

    /// Takes the files into use if they changed, and says whether they had. Reads files: blocks.
    ///
    /// # Errors
    /// As for [`CertStore::load`]; the pair in use stays.
    pub fn reload(&self, now: SystemTime) -> Result<bool, TlsError> {
        let content = pem::read_pair(&self.files)?;
        if self.current.load().content == content {
            return Ok(false);
        }
        self.current
            .store(Arc::new(Loaded::new(self.name, content, &self.files, now)?));
        Ok(true)
    }
}

impl Loaded {
    fn new(name: &'static str, content: Content, files: &Files, now: SystemTime) -> Result<Self, TlsError> {
        let (key, Validity { from, to }) = pem::certified(&content, files)?;
        let now = seconds(now);
        if now < from || to < now {
            warn!(certificate = name, path = %files.cert.display(), from, to, now, "certificate is not valid now");
        }
        // Exact: seconds of this era need 31 bits.
        #[expect(
            clippy::cast_precision_loss,
            reason = "an f64 holds whole seconds for 285 million years"
        )]
        CERTIFICATE_EXPIRY.with([name]).set(to as f64);
        Ok(Self {
            key: Arc::new(key),
            content,
        })
    }
}

/// Seconds since the Unix epoch; 0 for times before it.
pub(super) fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Reloads a store when its directories change and every `poll`, until `stop`. Bad files are told once.
///
/// The directories are watched, not the files: a Secret volume swaps a symlink, which the file itself never sees.
/// The poll makes up for events that a file system does not send.
pub async fn watch(store: Arc<CertStore>, poll: Duration, stop: CancellationToken) {
    let changed = Arc::new(Notify::new());
    let _watcher = watcher(&store.files, Arc::clone(&changed))
        .inspect_err(|error| warn!(certificate = store.name, %error, "no file events: polling only"));
    let mut ticks = interval(poll);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = None;
    loop {
        select! {
            () = stop.cancelled() => return,
            () = changed.notified() => sleep(SETTLE).await,
            _ = ticks.tick() => {}
        }
        let blocking = Arc::clone(&store);
        // An abort of this task is the only way for the inner one to be cancelled.
        let Ok(result) = spawn_blocking(move || blocking.reload(SystemTime::now())).await else {
            return;
        };
        told = tell(store.name, result, told.as_deref());
    }
}

/// Logs and counts the result of a reload unless it is the same failure as before; returns the failure.
fn tell(name: &'static str, result: Result<bool, TlsError>, told: Option<&str>) -> Option<String> {
    match result {
        Ok(false) => None,
        Ok(true) => {
            CERTIFICATE_RELOADS.with([name, "loaded"]).increment(1);
            info!(certificate = name, "certificate replaced");
            None
        }
        Err(failure) => {
            let failure = chain(&failure).to_string();
            if told != Some(&failure) {
                CERTIFICATE_RELOADS.with([name, "failed"]).increment(1);
                error!(
                    certificate = name,
                    error = failure,
                    "new certificate refused; the old one stays in use"
                );
            }
            Some(failure)
        }
    }
}

/// Whether an event is worth a look at the files. Reading them is an event too: answering that would never end.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(_))
}

fn watcher(files: &Files, changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error stands for events that were lost.
        if event.map_or(true, |event| is_change(event.kind)) {
            changed.notify_one();
        }
    })?;
    let directory = |path: &Path| match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    for directory in BTreeSet::from([directory(&files.cert), directory(&files.key)]) {
        watcher.watch(&directory, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

#[cfg(test)]
mod tests {
    use metrics::with_local_recorder;
    use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind, RenameMode};

    use super::*;
    use crate::metric::Catalogue;

    #[test]
    fn our_own_reading_is_no_change_and_a_renamed_link_is() {
        assert!(!is_change(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        for kind in [
            EventKind::Create(CreateKind::Any),
            EventKind::Modify(ModifyKind::Name(RenameMode::To)),
            EventKind::Remove(RemoveKind::Any),
        ] {
            assert!(is_change(kind), "{kind:?}");
        }
    }

    #[test]
    fn the_same_failure_is_told_once_until_it_is_over() {
        let (recorder, exporter) = Catalogue::new(&[]).unwrap().recorder().unwrap();
        let refused = || Err(TlsError::Foreign { path: "a".into() });
        with_local_recorder(&recorder, || {
            let first = tell("test", refused(), None);
            let second = tell("test", refused(), first.as_deref());
            assert_eq!(first, second);
            let over = tell("test", Ok(false), second.as_deref());
            assert_eq!(over, None);
            tell("test", refused(), None);
        });
        let text = exporter.render();
        let told = r#"headroom_tls_reloads_total{certificate="test",result="failed"} 2"#;
        assert!(text.contains(told), "{text}");
    }
}
