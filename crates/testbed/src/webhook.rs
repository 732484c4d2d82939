//! Runs one replica of the webhook as a process on loopback, and registers it with the API server.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};
use headroom_domain::installation::Installation;
use headroom_kit::{gate::GateSet, tls::self_signed};
use headroom_webhook::{
    admission::{endpoint::Family, endpoints},
    install::manifest::{self, Address, steady_state},
};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::{Api, Client, ResourceExt as _};
use xtask::process::Process;

use crate::{
    accounts,
    programs::{free_address, ready},
};

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// Gates of the node endpoints, which are on by default.
pub const GATES: &str = "NodeMutatingWebhook=true,NodeValidatingWebhook=true";
/// Flag that accepts hints with demo timing.
pub const DEMO_TIMING: &str = "--allow-demo-timing";

/// Endpoints that a replica serves, and that are registered with the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Namespaces and names of the installation.
    pub installation: Installation,
    pub families: Vec<Family>,
    /// Feature gates of the endpoints, as in [`GATES`].
    pub gates: String,
}

/// Source of a replica's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateSource {
    /// Files that the replicas of a folder share.
    Files,
    /// The Secret in the API server.
    Secret,
}

/// Options of a webhook replica.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    pub program: PathBuf,
    /// Name of the replica, of its log and of its configuration file.
    pub name: String,
    /// Folder for its files. Replicas with the same folder share their certificates.
    pub folder: PathBuf,
    /// Path of the kubeconfig of its account.
    pub kubeconfig: PathBuf,
    /// Text of its configuration file.
    pub config: String,
    pub served: Served,
    /// Sets `--accept-no-floor`: hints may raise nodes although the floor policies are not installed.
    pub accepts_no_floor: bool,
    /// Further flags, such as [`DEMO_TIMING`].
    pub flags: Vec<String>,
    pub certificates: CertificateSource,
}

/// A running replica; ended when dropped.
#[derive(Debug)]
pub struct Webhook {
    pub process: Process,
    /// Port of the admission endpoints.
    pub admission: SocketAddr,
    pub hints: SocketAddr,
    pub admin: SocketAddr,
    /// CA file of its certificate, in PEM; absent if its source is a Secret.
    pub ca: PathBuf,
    pub served: Served,
}

impl Default for Served {
    /// The node endpoints of the default installation.
    fn default() -> Self {
        Self {
            installation: Installation::default(),
            families: vec![Family::Nodes],
            gates: GATES.to_owned(),
        }
    }
}

impl WebhookOptions {
    /// Sets the text of the configuration file.
    pub fn config(mut self, text: &str) -> Self {
        text.clone_into(&mut self.config);
        self
    }

    /// Sets the kubeconfig, for example one with another URL of the API server.
    pub fn kubeconfig(mut self, path: &Path) -> Self {
        path.clone_into(&mut self.kubeconfig);
        self
    }

    /// Sets the feature gates, as in [`GATES`].
    pub fn gates(mut self, gates: &str) -> Self {
        gates.clone_into(&mut self.served.gates);
        self
    }

    /// Removes `--accept-no-floor` from the flags.
    pub fn requires_floor(mut self) -> Self {
        self.accepts_no_floor = false;
        self
    }

    /// Sets the Secret as the source of the certificate.
    pub fn managed(mut self) -> Self {
        self.certificates = CertificateSource::Secret;
        self
    }

    /// Sets further flags, replacing earlier ones.
    pub fn flags<F: Into<String>>(mut self, flags: impl IntoIterator<Item = F>) -> Self {
        self.flags = flags.into_iter().map(Into::into).collect();
        self
    }
}

fn flags_of(installation: &Installation) -> [&str; 10] {
    [
        "--namespace",
        installation.namespace.as_str(),
        "--agent-namespace",
        installation.agent_namespace.as_str(),
        "--name-suffix",
        installation.suffix.as_str(),
        "--config-namespace",
        installation.slo_config.namespace.as_str(),
        "--slo-config-name",
        installation.slo_config.name.as_str(),
    ]
}

impl Webhook {
    /// Starts a replica and waits until it is ready.
    ///
    /// # Errors
    /// If it ends or is not ready in time; the message has the end of its log.
    pub async fn start(options: &WebhookOptions) -> Result<Self> {
        let mut webhook = Self::spawn(options)?;
        ready(&mut webhook.process, webhook.admin).await?;
        Ok(webhook)
    }

    /// Starts a replica without waiting.
    ///
    /// # Errors
    /// If its files cannot be written, or it cannot be started.
    pub fn spawn(options: &WebhookOptions) -> Result<Self> {
        let WebhookOptions {
            program,
            name,
            folder,
            kubeconfig,
            config,
            served,
            accepts_no_floor,
            flags,
            certificates: source,
        } = options;
        let Served {
            installation,
            families,
            gates,
        } = served;
        let families: Vec<_> = families.iter().map(|family| family.name()).collect();
        let (admission, hints, admin) = (free_address()?, free_address()?, free_address()?);
        let certificates = folder.join("webhook-tls");
        let config_file = folder.join(format!("{name}.yaml"));
        fs::write(&config_file, config).with_context(|| format!("write {}", config_file.display()))?;
        let mut command = Command::new(program);
        command
            .arg("--config")
            .arg(&config_file)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--admission-addr", &admission.to_string()])
            .args(["--admission-url", &format!("https://{admission}")])
            .args(["--hints-addr", &hints.to_string()])
            .args(["--admin-addr", &admin.to_string()])
            .args([
                "--feature-gates",
                gates,
                "--tls-san",
                "127.0.0.1",
                "--replica-name",
                name,
            ])
            .args(accepts_no_floor.then_some("--accept-no-floor"))
            .args(flags_of(installation))
            .args(flags)
            // Environment variables, so that `flags` can override them.
            .env("HEADROOM_DRAIN_SECONDS", "1")
            .env("HEADROOM_SERVE", families.join(","));
        if *source == CertificateSource::Files {
            command.arg("--tls-self-signed-dir").arg(&certificates);
        }
        let process = Process::spawn(name, &command, &folder.join(format!("{name}.log")), GRACE)?;
        Ok(Self {
            process,
            admission,
            hints,
            admin,
            ca: certificates.join(self_signed::CA_CERT),
            served: served.clone(),
        })
    }

    /// Base URL of its admission endpoints.
    pub fn url(&self) -> String {
        format!("https://{}", self.admission)
    }
}

/// Registers the webhook at `url` with the API server, with the generated webhook configurations.
///
/// # Errors
/// If the CA cannot be read, or the API server refuses a configuration.
pub async fn register(client: &Client, url: &str, ca: &Path, served: &Served) -> Result<()> {
    register_changed(client, url, ca, served, |_| ()).await
}

/// Like [`register`], with the option `steady-state-skip`.
///
/// # Errors
/// As for [`register`].
pub async fn register_skipping(client: &Client, url: &str, ca: &Path, served: &Served) -> Result<()> {
    register_changed(client, url, ca, served, steady_state::skip).await
}

/// Like [`register`], without a CA bundle, as the manifests do: the webhook adds it.
///
/// # Errors
/// If the API server refuses a configuration.
pub async fn register_without_bundle(client: &Client, url: &str, served: &Served) -> Result<()> {
    register_with(client, url, None, served, |_| ()).await
}

async fn register_changed(
    client: &Client,
    url: &str,
    ca: &Path,
    served: &Served,
    change: impl Fn(&mut MutatingWebhookConfiguration),
) -> Result<()> {
    let bundle = fs::read(ca).with_context(|| format!("read {}", ca.display()))?;
    register_with(client, url, Some(bundle), served, change).await
}

async fn register_with(
    client: &Client,
    url: &str,
    ca_bundle: Option<Vec<u8>>,
    served: &Served,
    change: impl Fn(&mut MutatingWebhookConfiguration),
) -> Result<()> {
    let Served {
        installation,
        families,
        gates,
    } = served;
    let at = manifest::Client {
        address: Address::Url(url.to_owned()),
        ca_bundle,
    };
    let gates = GateSet::parse(endpoints::gates(), gates)?;
    let endpoints = endpoints::served(families);
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    for mut mutating in manifest::mutating(installation, &endpoints, &gates, &at) {
        change(&mut mutating);
        accounts::apply(&configurations, &mutating.name_any(), &mutating).await?;
    }
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    for validating in manifest::validating(installation, &endpoints, &gates, &at) {
        accounts::apply(&configurations, &validating.name_any(), &validating).await?;
    }
    Ok(())
}
