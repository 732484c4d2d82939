//! The serving key pair. It is reloaded when its files change; if the new files are bad, the old pair stays.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{select, task::spawn_blocking};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{
    Files, TlsError,
    pem::{self, Content, PemPair, Validity},
    seconds, trust,
};
use crate::{
    log::chain,
    metric::process::{CERTIFICATE_EXPIRY, CERTIFICATE_RELOADS},
    watch::Changes,
};

/// Key pair that connections pick up at their handshake, so a replacement applies from the next connection on. Its
/// source is a pair of files, or a writer that calls [`CertStore::replace`].
pub struct CertStore {
    name: &'static str,
    files: Files,
    /// `None` until a writer has supplied the first pair: handshakes fail meanwhile.
    current: ArcSwapOption<Loaded>,
}

struct Loaded {
    key: Arc<CertifiedKey>,
    content: Content,
    /// Expiry of the certificate, in seconds since the Unix epoch.
    ends_s: i64,
}

impl fmt::Debug for CertStore {
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
        Some(Arc::clone(&self.current.load().as_ref()?.key))
    }
}

impl CertStore {
    /// Loads a key pair; `name` identifies it in logs and metrics. A pair that is not valid `now` is served anyway,
    /// with a warning: refusing it would not help.
    ///
    /// # Errors
    /// A file cannot be read or parsed, the key belongs to another certificate, or certificates are out of order.
    pub fn load(name: &'static str, files: Files, now: SystemTime) -> Result<Arc<Self>, TlsError> {
        let loaded = Loaded::new(name, pem::read_pair(&files)?, &files, now)?;
        Ok(Arc::new(Self {
            name,
            files,
            current: ArcSwapOption::from_pointee(loaded),
        }))
    }

    /// Creates a store without a pair. Handshakes fail until the first [`CertStore::replace`]. `source` describes the
    /// origin of the pairs in errors.
    pub fn empty(name: &'static str, source: &str) -> Arc<Self> {
        Arc::new(Self {
            name,
            files: Files {
                cert: format!("the certificate of {source}").into(),
                key: format!("the key of {source}").into(),
            },
            current: ArcSwapOption::empty(),
        })
    }

    /// Serves this pair from now on, and returns true if it differs from the one before.
    ///
    /// # Errors
    /// Same as [`CertStore::load`]; the pair in use stays.
    pub fn replace(&self, pair: &PemPair, now: SystemTime) -> Result<bool, TlsError> {
        self.set(pair.into(), now)
    }

    /// Loads the files if they changed, and returns true if they had. Blocks on file I/O.
    ///
    /// # Errors
    /// Same as [`CertStore::load`]; the pair in use stays.
    pub fn reload(&self, now: SystemTime) -> Result<bool, TlsError> {
        self.set(pem::read_pair(&self.files)?, now)
    }

    fn set(&self, content: Content, now: SystemTime) -> Result<bool, TlsError> {
        let current = self.current.load();
        if current.as_ref().is_some_and(|current| current.content == content) {
            return Ok(false);
        }
        let loaded = Loaded::new(self.name, content, &self.files, now)?;
        self.current.store(Some(Arc::new(loaded)));
        Ok(true)
    }

    /// Seconds until the serving certificate expires; negative after that, and 0 without a certificate.
    pub fn left_s(&self, now: SystemTime) -> i64 {
        let current = self.current.load();
        current
            .as_ref()
            .map_or(0, |current| current.ends_s.saturating_sub(seconds(now)))
    }

    /// Verifies the serving certificate like a client that trusts only `authorities` (PEM) and connects to `name`, a
    /// DNS name or an IP address.
    ///
    /// # Errors
    /// The client would refuse the certificate.
    pub fn verify(&self, authorities: &[u8], name: &str, now: SystemTime) -> Result<(), TlsError> {
        let current = self.current.load();
        let chain = current.as_ref().map(|current| current.key.cert.as_slice());
        trust::verify(chain.unwrap_or_default(), authorities, name, now)
    }
}

impl Loaded {
    fn new(name: &'static str, content: Content, files: &Files, now: SystemTime) -> Result<Self, TlsError> {
        let (key, Validity { from, to }) = pem::certified(&content, files)?;
        let now = seconds(now);
        if now < from || to < now {
            warn!(certificate = name, path = %files.cert.display(), from, to, now, "the certificate is expired or not yet valid");
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
            ends_s: to,
        })
    }
}

/// Reloads a store when its directories change and at least every `poll`, until `stop`. The same failure is logged
/// once.
pub async fn watch(store: Arc<CertStore>, poll: Duration, stop: CancellationToken) {
    let mut changes = Changes::watch(&[&store.files.cert, &store.files.key], poll);
    let mut logged = None;
    loop {
        select! {
            () = stop.cancelled() => return,
            () = changes.next() => {}
        }
        let blocking = Arc::clone(&store);
        // The inner task is cancelled only if this task is aborted.
        let Ok(result) = spawn_blocking(move || blocking.reload(SystemTime::now())).await else {
            return;
        };
        logged = log_reload(store.name, result, logged.as_deref());
    }
}

/// Logs and counts the result of a reload unless it repeats the last failure; returns the failure.
fn log_reload(name: &'static str, result: Result<bool, TlsError>, logged: Option<&str>) -> Option<String> {
    match result {
        Ok(false) => None,
        Ok(true) => {
            CERTIFICATE_RELOADS.with([name, "loaded"]).increment(1);
            info!(certificate = name, "certificate replaced");
            None
        }
        Err(failure) => {
            let failure = chain(&failure).to_string();
            if logged != Some(&failure) {
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

#[cfg(test)]
mod tests {
    use metrics::with_local_recorder;

    use super::*;
    use crate::metric::Catalogue;

    #[test]
    fn the_same_failure_is_logged_once_until_it_is_over() {
        let (recorder, exporter) = Catalogue::new(&[]).unwrap().recorder().unwrap();
        let refused = || Err(TlsError::Foreign { path: "a".into() });
        with_local_recorder(&recorder, || {
            let first = log_reload("test", refused(), None);
            let second = log_reload("test", refused(), first.as_deref());
            assert_eq!(first, second);
            let over = log_reload("test", Ok(false), second.as_deref());
            assert_eq!(over, None);
            log_reload("test", refused(), None);
        });
        let text = exporter.render();
        let logged = r#"headroom_tls_reloads_total{certificate="test",result="failed"} 2"#;
        assert!(text.contains(logged), "{text}");
    }
}
