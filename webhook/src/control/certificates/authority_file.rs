//! Follows a file with the CAs of a certificate that is in files as well, so that the leader can publish them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use headroom_kit::{
    admin::PartReadiness,
    log::chain,
    tls::{CertStore, TlsError},
};
use tokio::{select, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::state::CertificateState;

/// Interval of checks of the file. Kubelets replace a mounted file within about a minute.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// CAs in a file, next to a certificate in files.
pub struct AuthorityFile {
    path: PathBuf,
    /// Names that the certificate must be for.
    names: Vec<String>,
    store: Arc<CertStore>,
    state: Arc<CertificateState>,
    note: PartReadiness,
}

impl AuthorityFile {
    pub fn new(
        path: PathBuf,
        names: Vec<String>,
        store: Arc<CertStore>,
        (state, note): (Arc<CertificateState>, PartReadiness),
    ) -> Self {
        Self {
            path,
            names,
            store,
            state,
            note,
        }
    }

    /// Uses the CAs of the file while they verify the certificate, until `stop` is cancelled. The last good ones stay.
    pub async fn follow(self, stop: CancellationToken) {
        let mut logged = None;
        loop {
            let problem = match self.read() {
                Ok(bundle) => {
                    self.state.adopt_bundle(&bundle, None);
                    None
                }
                Err(error) => Some(format!("{}: {}", self.path.display(), chain(&error))),
            };
            if problem != logged
                && let Some(problem) = &problem
            {
                warn!(problem, "the CAs in the file are not published");
            }
            logged.clone_from(&problem);
            self.state.set_problem(problem);
            self.state.show(&self.note);
            select! {
                () = stop.cancelled() => return,
                () = sleep(CHECK_EVERY) => {}
            }
        }
    }

    fn read(&self) -> Result<String, TlsError> {
        let bundle = read(&self.path)?;
        for name in &self.names {
            self.store.verify(bundle.as_bytes(), name, SystemTime::now())?;
        }
        Ok(bundle)
    }
}

fn read(path: &Path) -> Result<String, TlsError> {
    fs::read_to_string(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })
}
