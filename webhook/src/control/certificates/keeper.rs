//! [`Keeper`]: keeps the serving certificate equal to the Secret in the API server, on every replica. The leader also
//! writes the Secret: it creates, renews and rotates certificates.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use headroom_domain::{installation::Installation, names};
use headroom_kit::{admin::PartReadiness, log::chain, tls::CertStore};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::PostParams};
use tokio::{
    select,
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    api_object::{self, ReadObject},
    keep_error::{FIX_FOREIGN, FIX_OURS, KeepError, WRITE_LIMIT},
    material::{self, Material, Progress, SecretError, Usable},
    rotation::{self, Lifetimes, Situation, Spread},
    state::{CertificateState, LastStep},
};
use crate::store::access::{Access, AccessNamespace, ObjectNames};

/// API access that keeping certificates needs, in our own namespace only.
pub static ACCESS: &[Access] = &[
    // An object under creation has no name yet, so a rule cannot name it; the policy headroom-own-secret does.
    Access::to("", "secrets", ObjectNames::All, &["create"]).in_namespace(AccessNamespace::Own),
    Access::to(
        "",
        "secrets",
        ObjectNames::Ours(&[names::CERTIFICATES_SECRET]),
        &["get", "update", "watch"],
    )
    .in_namespace(AccessNamespace::Own),
];

/// Interval of the leader's check whether a step is due.
const LEADER_EVERY: Duration = Duration::from_secs(2);
/// Pause after a failed read or write.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Writer of the Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretWriter {
    /// Headroom, unless the Secret has another writer already.
    Leader,
    /// Another program, such as cert-manager.
    Other,
}

/// Settings of a [`Keeper`].
pub struct KeeperOptions {
    pub client: Client,
    pub installation: Installation,
    pub writer: SecretWriter,
    /// Names that the certificate is for.
    pub names: Vec<String>,
    pub lifetimes: Lifetimes,
    /// Number of connected agents that have not reported the CA bundle with this fingerprint.
    pub lagging_agents: Arc<dyn Fn(&str) -> u32 + Send + Sync>,
}

/// Keeps the serving certificate equal to the Secret.
pub struct Keeper {
    options: KeeperOptions,
    secrets: Api<Secret>,
    name: String,
    store: Arc<CertStore>,
    state: Arc<CertificateState>,
    ready: PartReadiness,
    note: PartReadiness,
    /// The last content that was usable, to restore a damaged Secret.
    last_good: Option<Material>,
    has_certificate: bool,
}

impl Keeper {
    /// Keeps this store. The part `ready` is ready once the store has a certificate; `note` shows problems.
    pub fn new(
        options: KeeperOptions,
        store: Arc<CertStore>,
        state: Arc<CertificateState>,
        (ready, note): (PartReadiness, PartReadiness),
    ) -> Self {
        let Installation { namespace, .. } = &options.installation;
        Self {
            secrets: Api::namespaced(options.client.clone(), namespace.as_str()),
            name: options.installation.named(names::CERTIFICATES_SECRET),
            options,
            store,
            state,
            ready,
            note,
            last_good: None,
            has_certificate: false,
        }
    }

    /// Follows the Secret until `stop` is cancelled, and writes it while this replica is the leader.
    pub async fn keep(mut self, mut is_leader: watch::Receiver<bool>, stop: CancellationToken) {
        let mut logged = None;
        loop {
            let leads = *is_leader.borrow_and_update();
            let (version, outcome) = self.round(leads).await;
            let problem = outcome.err().map(|error| chain(&error).to_string());
            if problem != logged
                && let Some(problem) = &problem
            {
                warn!(problem, "the certificates need attention");
            }
            logged.clone_from(&problem);
            self.state.set_problem(problem.clone());
            self.report(problem.as_deref());
            let (secrets, name) = (self.secrets.clone(), self.name.clone());
            let pause = async move {
                match version {
                    Some(version) if problem.is_none() => {
                        api_object::changed(&secrets, &name, &version).await;
                    }
                    _ => sleep(RETRY_AFTER).await,
                }
            };
            let leader_pause = async move {
                if leads {
                    sleep(LEADER_EVERY).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            select! {
                () = stop.cancelled() => return,
                () = pause => {}
                () = leader_pause => {}
                Ok(()) = is_leader.changed() => {}
            }
        }
    }

    /// Shows the problems. A replica with a certificate stays ready.
    fn report(&self, problem: Option<&str>) {
        match problem {
            Some(problem) if !self.has_certificate => self.ready.not_ready(problem),
            _ if self.has_certificate => self.ready.ready(),
            _ => {}
        }
        self.state.show(&self.note);
    }

    /// Reads the Secret once, uses its content, and writes it if that is due. Returns the version that was read.
    async fn round(&mut self, leads: bool) -> (Option<String>, Result<(), KeepError>) {
        let read = api_object::read(&self.options.client, &self.secrets, &self.name).await;
        let ReadObject { object, server_time } = match read {
            Ok(read) => read,
            Err(source) => {
                let name = self.name.clone();
                return (None, Err(KeepError::Read { name, source }));
            }
        };
        let ours = SystemTime::now();
        let theirs = server_time.unwrap_or(ours);
        self.state.compare_clocks(ours, theirs);
        // Clients verify by the API server's clock or one near it. A clock that is ahead renews nothing.
        let (verified_at, now) = (theirs, ours.min(theirs));
        let Some(secret) = object else {
            return (None, self.create(now).await);
        };
        let version = secret.metadata.resource_version.clone();
        let outcome = if material::is_managed(&secret) && self.options.writer == SecretWriter::Leader {
            self.follow_ours(secret, leads, verified_at, now).await
        } else {
            self.follow_foreign(&secret, verified_at)
        };
        (version, outcome)
    }

    /// Creates the Secret. Of several replicas that try, one succeeds, and the others read its Secret next.
    async fn create(&mut self, now: SystemTime) -> Result<(), KeepError> {
        let name = self.name.clone();
        if self.options.writer == SecretWriter::Other {
            return Err(KeepError::Absent { name });
        }
        // A deleted Secret is restored: clients trust its CA.
        let material = self.last_good_or_fresh(now, "there was no Secret")?;
        let namespace = self.options.installation.namespace.as_str();
        let secret = material.write(None, namespace, &name);
        let params = PostParams::default();
        let created = self.secrets.create(&params, &secret);
        match timeout(WRITE_LIMIT, created).await {
            Ok(Ok(_)) => {
                info!(secret = name, "created the Secret with new certificates");
                Err(KeepError::Absent { name })
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(KeepError::Absent { name }),
            Ok(Err(source)) => Err(KeepError::Write {
                name,
                source: Box::new(source),
            }),
            Err(_elapsed) => Err(KeepError::Slow { name }),
        }
    }

    /// Uses a Secret of another writer, if clients would accept its certificate.
    fn follow_foreign(&mut self, secret: &Secret, verified_at: SystemTime) -> Result<(), KeepError> {
        let name = self.name.clone();
        let usable = Usable::read(secret).map_err(|source| KeepError::Incomplete {
            name: name.clone(),
            fix: FIX_FOREIGN,
            source,
        })?;
        let checked =
            rotation::check_serving(&usable.serving, &usable.bundle, &self.options.names, verified_at);
        // Without any certificate, one that some clients refuse is better than none.
        if checked.is_ok() || !self.has_certificate {
            self.serve(&usable, None, verified_at)?;
        }
        checked.map_err(|source| KeepError::Unusable {
            name,
            fix: FIX_FOREIGN,
            source: Box::new(source),
        })
    }

    /// Uses our Secret, and writes its next content if this replica leads and one is due.
    async fn follow_ours(
        &mut self,
        secret: Secret,
        leads: bool,
        verified_at: SystemTime,
        now: SystemTime,
    ) -> Result<(), KeepError> {
        let material = match Material::read(&secret) {
            Ok(material) => material,
            Err(source) => {
                // A value that this version does not know may be that of a later version: its certificate is served, and
                // it is not overwritten.
                if matches!(source, SecretError::Annotation { .. }) {
                    self.follow_foreign(&secret, verified_at)?;
                } else if leads {
                    self.restore(secret, now).await?;
                }
                let (name, fix) = (self.name.clone(), FIX_OURS);
                return Err(KeepError::Incomplete { name, fix, source });
            }
        };
        let checked = rotation::check(&material, &self.options.names, verified_at);
        // Without any certificate, one that some clients refuse is better than none.
        if checked.is_ok() || !self.has_certificate {
            let step = LastStep {
                uid: secret.metadata.uid.clone().unwrap_or_default(),
                progress: material.progress.clone(),
            };
            self.serve(&material.usable(), Some(step), verified_at)?;
        }
        if checked.is_ok() {
            self.last_good = Some(material.clone());
        }
        if leads && checked.is_err() && self.has_better(&material, now) {
            self.restore(secret, now).await?;
        } else if leads && !material.has_bundle(&secret) {
            self.write(secret, &material).await?;
        } else if leads {
            self.advance(secret, &material, now).await?;
        }
        checked.map_err(|source| KeepError::Unusable {
            name: self.name.clone(),
            fix: FIX_OURS,
            source: Box::new(source),
        })
    }

    /// True if the content before it is still good.
    fn has_better(&self, material: &Material, now: SystemTime) -> bool {
        let good = self.last_good.as_ref().filter(|good| *good != material);
        good.is_some_and(|good| rotation::check(good, &self.options.names, now).is_ok())
    }

    /// Writes the next content, if one is due.
    async fn advance(&self, secret: Secret, material: &Material, now: SystemTime) -> Result<(), KeepError> {
        let demand = material::demand(&secret);
        let fingerprint = Arc::clone(&self.state.bundle().borrow().fingerprint);
        let situation = Situation {
            names: &self.options.names,
            now,
            spread: Spread {
                is_stored: self.state.is_stored(),
                lagging_agents: (self.options.lagging_agents)(&fingerprint),
            },
            demand: demand.as_deref(),
        };
        debug!(state = material.progress.state.name(), spread = ?situation.spread, bundle = %fingerprint, "looked for the next step");
        match rotation::next(material, &situation, &self.options.lifetimes) {
            Ok(Some(next)) => self.write(secret, &next).await,
            Ok(None) => Ok(()),
            // The keys do not fit.
            Err(_unusable) => self.restore(secret, now).await,
        }
    }

    /// Replaces content that cannot be used: by the last one that could, or by new certificates.
    async fn restore(&self, secret: Secret, now: SystemTime) -> Result<(), KeepError> {
        let restored = self.last_good_or_fresh(now, "the certificates in the Secret could not be used")?;
        self.write(secret, &restored).await
    }

    fn last_good_or_fresh(&self, now: SystemTime, reason: &str) -> Result<Material, KeepError> {
        if let Some(material) = &self.last_good {
            return Ok(material.clone());
        }
        let KeeperOptions { names, lifetimes, .. } = &self.options;
        rotation::fresh(names, now, lifetimes, reason).map_err(|error| KeepError::Issue(Box::new(error)))
    }

    /// Writes the Secret over the version that was read. A conflict means that another replica was faster.
    async fn write(&self, before: Secret, material: &Material) -> Result<(), KeepError> {
        let name = self.name.clone();
        let namespace = self.options.installation.namespace.as_str();
        let secret = material.write(Some(before), namespace, &name);
        let params = PostParams::default();
        let written = self.secrets.replace(&name, &params, &secret);
        match timeout(WRITE_LIMIT, written).await {
            Ok(Ok(_)) => {
                let Progress { state, reason, .. } = &material.progress;
                info!(state = state.name(), reason, "wrote the certificates");
                Ok(())
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Ok(()),
            Ok(Err(source)) => Err(KeepError::Write {
                name,
                source: Box::new(source),
            }),
            Err(_elapsed) => Err(KeepError::Slow { name }),
        }
    }

    fn serve(&mut self, usable: &Usable, step: Option<LastStep>, now: SystemTime) -> Result<(), KeepError> {
        let name = &self.name;
        let replaced = self.store.replace(&usable.serving, now);
        let replaced = replaced.map_err(|source| KeepError::Unusable {
            name: name.clone(),
            fix: FIX_FOREIGN,
            source: Box::new(source),
        })?;
        if replaced {
            info!(secret = name, "the serving certificate was replaced");
        }
        self.has_certificate = true;
        self.state.adopt(usable, step);
        Ok(())
    }
}
