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

/// How long it may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// The gates of the node endpoints, which are on by default.
pub const GATES: &str = "NodeMutatingWebhook=true,NodeValidatingWebhook=true";
/// The flag by which it takes hints of compressed durations.
pub const DEMO_TIMING: &str = "--allow-demo-timing";

/// What a replica serves, and what is registered with the API server for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The installation that it belongs to.
    pub installation: Installation,
    /// Families of endpoints.
    pub families: Vec<Family>,
    /// Feature gates that decide which of their endpoints, as in [`GATES`].
    pub gates: String,
}

/// What to start it with.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// `headroom-webhook`.
    pub program: PathBuf,
    /// Name of the replica, for its log and its folder.
    pub name: String,
    /// Folder for its files; replicas that share it share their certificates.
    pub folder: PathBuf,
    /// Kubeconfig of its account.
    pub kubeconfig: PathBuf,
    /// Its configuration file's text.
    pub config: String,
    /// What it serves.
    pub served: Served,
    /// True if hints may raise nodes although the policies are not installed.
    pub accepts_no_floor: bool,
    /// More flags, such as [`DEMO_TIMING`].
    pub flags: Vec<String>,
}

/// A running replica; ended when dropped.
#[derive(Debug)]
pub struct Webhook {
    /// The process.
    pub process: Process,
    /// Where it answers admission calls.
    pub admission: SocketAddr,
    /// Where agents report.
    pub hints: SocketAddr,
    /// Its admin port.
    pub admin: SocketAddr,
    /// The CA of its certificate, PEM.
    pub ca: PathBuf,
    /// What it serves.
    pub served: Served,
}

impl Default for Served {
    /// The node endpoints of the first installation.
    fn default() -> Self {
        Self {
            installation: Installation::default(),
            families: vec![Family::Nodes],
            gates: GATES.to_owned(),
        }
    }
}

impl WebhookOptions {
    /// With this configuration file.
    pub fn config(mut self, text: &str) -> Self {
        text.clone_into(&mut self.config);
        self
    }

    /// With the kubeconfig of another way to the API server.
    pub fn kubeconfig(mut self, path: &Path) -> Self {
        path.clone_into(&mut self.kubeconfig);
        self
    }

    /// With these feature gates, as in [`GATES`].
    pub fn gates(mut self, gates: &str) -> Self {
        gates.clone_into(&mut self.served.gates);
        self
    }

    /// Without leave to raise nodes while the policies are not installed.
    pub fn requires_floor(mut self) -> Self {
        self.accepts_no_floor = false;
        self
    }

    /// With these further flags, in place of any before.
    pub fn flags<F: Into<String>>(mut self, flags: impl IntoIterator<Item = F>) -> Self {
        self.flags = flags.into_iter().map(Into::into).collect();
        self
    }
}

/// The flags by which a replica knows its installation.
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
    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// If it ends or is not ready in time; the message holds the end of its log.
    pub async fn start(options: &WebhookOptions) -> Result<Self> {
        let mut webhook = Self::spawn(options)?;
        ready(&mut webhook.process, webhook.admin).await?;
        Ok(webhook)
    }

    /// Starts it without waiting.
    ///
    /// # Errors
    /// If its files cannot be written or it cannot be started.
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
            .arg("--tls-self-signed-dir")
            .arg(&certificates)
            .args(accepts_no_floor.then_some("--accept-no-floor"))
            .args(flags_of(installation))
            .args(flags)
            // Not by their flags, so that `flags` may say otherwise.
            .env("HEADROOM_DRAIN_SECONDS", "1")
            .env("HEADROOM_SERVE", families.join(","));
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

    /// The URL of its admission endpoints.
    pub fn url(&self) -> String {
        format!("https://{}", self.admission)
    }
}

/// Registers the webhook at `url` with the API server, as generated from its declarations.
///
/// # Errors
/// If the CA cannot be read or the API server refuses a configuration.
pub async fn register(client: &Client, url: &str, ca: &Path, served: &Served) -> Result<()> {
    register_changed(client, url, ca, served, |_| ()).await
}

/// As [`register`], with the option `steady-state-skip`.
///
/// # Errors
/// As for [`register`].
pub async fn register_skipping(client: &Client, url: &str, ca: &Path, served: &Served) -> Result<()> {
    register_changed(client, url, ca, served, steady_state::skip).await
}

async fn register_changed(
    client: &Client,
    url: &str,
    ca: &Path,
    served: &Served,
    change: impl Fn(&mut MutatingWebhookConfiguration),
) -> Result<()> {
    let Served {
        installation,
        families,
        gates,
    } = served;
    let bundle = fs::read(ca).with_context(|| format!("read {}", ca.display()))?;
    let at = manifest::Client {
        address: Address::Url(url.to_owned()),
        ca_bundle: Some(bundle),
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
