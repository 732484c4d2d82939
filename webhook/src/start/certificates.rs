//! Opens the serving certificate: from files, or from a Secret that is followed and, if it is ours, written.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use headroom_kit::{
    supervise::Supervisor,
    tls::{self, CertStore},
};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Client;
use tokio::sync::watch;

use super::{StartError, flags, parts::CommonParts};
use crate::{
    admission::{
        endpoint::{ConfigurationObject, Kind},
        endpoints,
        features::Features,
    },
    args::{Args, CertificateMode, Reconcile},
    control::{
        certificates::{
            AgentConfigMap, AuthorityFile, BundlePublisher, BundleTarget, CertificateState, Keeper,
            KeeperOptions, Lifetimes, OwnEntries, ReconciledFields, SecretWriter, WebhookConfiguration,
        },
        registration::entry::ExpectedEntry,
    },
    hints::streams::Streams,
};

/// Poll interval for certificate files, in addition to watching their directories.
const POLL: Duration = Duration::from_secs(30);

/// Loads the key pair from files, or makes it, and keeps it current. With another source the store is empty until
/// [`keep`] has read the Secret.
pub(super) fn open(args: &Args, supervisor: &mut Supervisor) -> Result<Arc<CertStore>, StartError> {
    if args.certificates.mode(&args.tls) != CertificateMode::Files {
        let secret = format!(
            "Secret {}",
            args.installation
                .get()
                .named(headroom_domain::names::CERTIFICATES_SECRET)
        );
        return Ok(CertStore::empty("serving", &secret));
    }
    let files = args.tls.files(&own_names(args), SystemTime::now())?;
    let store = CertStore::load("serving", files, SystemTime::now())?;
    let stop = supervisor.shutdown().stopping().clone();
    supervisor.spawn("certificates", tls::watch(Arc::clone(&store), POLL, stop));
    Ok(store)
}

/// Inputs of [`keep`] besides the flags and the common parts.
pub(super) struct KeepInputs<'a> {
    pub(super) state: &'a Arc<CertificateState>,
    pub(super) streams: &'a Arc<Streams>,
    pub(super) is_leader: watch::Receiver<bool>,
}

/// Follows the Secret, or the file with CAs, and publishes them while this replica leads. Does nothing if neither is
/// known.
pub(super) fn keep(
    args: &Args,
    parts: &CommonParts<'_>,
    inputs: KeepInputs<'_>,
    supervisor: &mut Supervisor,
) {
    let mode = args.certificates.mode(&args.tls);
    let CommonParts {
        client,
        store,
        features,
        readiness,
        ..
    } = *parts;
    let KeepInputs {
        state,
        streams,
        is_leader,
    } = inputs;
    let stop = supervisor.shutdown().stopping().clone();
    match (mode, &args.certificates.tls_ca_file) {
        (CertificateMode::Files, None) => return,
        (CertificateMode::Files, Some(path)) => {
            let shown = (Arc::clone(state), readiness.note("certificates"));
            let file = AuthorityFile::new(path.clone(), own_names(args), Arc::clone(store), shown);
            supervisor.spawn("ca-file", file.follow(stop.clone()));
        }
        (CertificateMode::Managed | CertificateMode::CertManager, _) => {
            let streams = Arc::clone(streams);
            let options = KeeperOptions {
                client: client.clone(),
                installation: args.installation.get(),
                writer: if mode == CertificateMode::Managed {
                    SecretWriter::Leader
                } else {
                    SecretWriter::Other
                },
                names: own_names(args),
                lifetimes: lifetimes(args),
                lagging_agents: Arc::new(move |fingerprint| streams.lagging(fingerprint)),
            };
            let parts = (readiness.handle("certificate"), readiness.note("certificates"));
            let keeper = Keeper::new(options, Arc::clone(store), Arc::clone(state), parts);
            supervisor.spawn("certificates", keeper.keep(is_leader.clone(), stop.clone()));
        }
    }
    let mut targets: Vec<Box<dyn BundleTarget>> = vec![Box::new(AgentConfigMap::new(
        client.clone(),
        &args.installation.get(),
    ))];
    targets.extend(configurations(args, client, features));
    let publisher = BundlePublisher::new(targets, Arc::clone(state));
    supervisor.spawn("ca-bundle", publisher.publish(is_leader, stop));
}

/// Names that the certificate must be for.
fn own_names(args: &Args) -> Vec<String> {
    let installation = args.installation.get();
    let mut names = vec![installation.service_host(), installation.hints_host()];
    if args.tls.tls_cert_file.is_none() && args.tls.tls_self_signed_dir.is_none() {
        names.extend(args.tls.tls_san.iter().cloned());
    }
    names
}

fn lifetimes(args: &Args) -> Lifetimes {
    let certificates = &args.certificates;
    Lifetimes {
        leaf: certificates.lifetime(),
        authority: certificates.ca_lifetime(),
        wait: Duration::from_secs(certificates.rotation_wait_seconds),
        most_wait: Duration::from_secs(certificates.rotation_most_wait_seconds),
    }
}

/// Webhook configurations of the served endpoints, as far as the leader writes them.
fn configurations(
    args: &Args,
    client: &Client,
    features: &Arc<ArcSwap<Features>>,
) -> Vec<Box<dyn BundleTarget>> {
    let (installation, address) = (args.installation.get(), flags::address(args));
    let mut entries: BTreeMap<(ConfigurationObject, bool), Vec<ExpectedEntry>> = BTreeMap::new();
    let mut objects = BTreeSet::new();
    for endpoint in endpoints::served(&args.serve) {
        let declaration = endpoint.declaration();
        let is_mutating = matches!(declaration.kind, Kind::Mutating(_));
        objects.insert(declaration.configuration);
        entries
            .entry((declaration.configuration, is_mutating))
            .or_default()
            .extend(ExpectedEntry::of_endpoint(&installation, endpoint, &address));
    }
    let mut targets: Vec<Box<dyn BundleTarget>> = Vec::new();
    for object in objects {
        let name = installation.named(object.name());
        for is_mutating in [true, false] {
            let own = entries.remove(&(object, is_mutating)).unwrap_or_default();
            let mode = args.certificates.mode(&args.tls);
            let fields = match (args.certificates.reconcile, mode) {
                (Reconcile::None, _) => ReconciledFields::Nothing,
                (_, CertificateMode::CertManager) => ReconciledFields::BundleUnlessInjected,
                (Reconcile::Bundle, _) => ReconciledFields::Bundle,
                (Reconcile::Entries, _) => ReconciledFields::Entries(OwnEntries {
                    entries: own,
                    features: Arc::clone(features),
                }),
            };
            let (client, name) = (client.clone(), name.clone());
            targets.push(Box::new(if is_mutating {
                WebhookConfiguration::new::<MutatingWebhookConfiguration>(client, name, fields)
            } else {
                WebhookConfiguration::new::<ValidatingWebhookConfiguration>(client, name, fields)
            }));
        }
    }
    targets
}
