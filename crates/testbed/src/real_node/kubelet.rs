//! The node's kubelet: its configuration, and its process.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    RealNodeOptions, containerd::SOCKET, daemon::Daemon, dns::DOMAIN, network::Network, sandbox::Sandbox,
    state::State,
};

/// Paths and addresses of the control plane that the kubelet needs.
#[derive(Debug)]
pub(super) struct Credentials {
    pub(super) kubeconfig: PathBuf,
    pub(super) ca: PathBuf,
    /// Certificate of the kubelet's port.
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

#[derive(Debug)]
pub(super) struct Kubelet {
    arguments: Vec<String>,
    program: PathBuf,
    pub(super) log: PathBuf,
}

impl Kubelet {
    /// Writes the configuration.
    pub(super) fn configure(
        state: &State,
        sandbox: &Sandbox,
        network: Network,
        credentials: &Credentials,
        options: &RealNodeOptions,
    ) -> Result<Self> {
        let folder = state.folder();
        // Pods resolve names of the cluster only.
        let resolver = folder.join("resolv.conf");
        write(&resolver, "")?;
        let mut config = configuration(network, credentials, &resolver);
        merge(&mut config, &options.kubelet);
        let path = folder.join("kubelet.json");
        write(&path, &format!("{config:#}\n"))?;
        let mut arguments = vec![
            format!("--config={}", path.display()),
            format!("--kubeconfig={}", credentials.kubeconfig.display()),
            format!("--hostname-override={}", options.name),
            format!("--node-ip={}", network.node()),
            "--root-dir=/var/lib/kubelet".to_owned(),
            "--v=2".to_owned(),
        ];
        arguments.extend_from_slice(&options.kubelet_flags);
        Ok(Self {
            arguments,
            program: sandbox.program("kubelet"),
            log: folder.join("kubelet.log"),
        })
    }

    pub(super) fn start(&self, sandbox: &Sandbox) -> Result<Daemon> {
        let mut command = sandbox.enter(&self.program);
        command.args(&self.arguments);
        Daemon::start("kubelet", &command, &self.log)
    }
}

fn configuration(network: Network, credentials: &Credentials, resolver: &Path) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": credentials.ca },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": credentials.certificate,
        "tlsPrivateKeyFile": credentials.key,
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "cgroupDriver": "cgroupfs",
        // The kernel decides: a machine with cgroup v1 has no other choice.
        "failCgroupV1": false,
        "failSwapOn": false,
        "clusterDNS": [network.node().to_string()],
        "clusterDomain": DOMAIN,
        "resolvConf": resolver,
        // The default is outside of the folders that the node has of its own.
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "systemReserved": { "cpu": "100m", "memory": "512Mi" },
        // The machine's disk may be nearly full for reasons that no pod can change.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
            "imagefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    })
}

/// Replaces values of the configuration. Objects are merged, and `null` removes a value, as in RFC 7396.
fn merge(config: &mut Value, changes: &Value) {
    let (Value::Object(config), Value::Object(changes)) = (&mut *config, changes) else {
        if !changes.is_null() {
            *config = changes.clone();
        }
        return;
    };
    for (key, change) in changes {
        if change.is_null() {
            config.remove(key);
        } else if change.is_object() {
            merge(config.entry(key).or_insert_with(|| json!({})), change);
        } else {
            config.insert(key.clone(), change.clone());
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_the_configuration_are_merged_and_null_removes() {
        let mut config = json!({"a": {"b": 1, "c": 2}, "d": 3, "e": 4});
        merge(
            &mut config,
            &json!({"a": {"b": 5, "f": {"g": 6}}, "d": null, "e": [7]}),
        );
        assert_eq!(config, json!({"a": {"b": 5, "c": 2, "f": {"g": 6}}, "e": [7]}));
        merge(&mut config, &Value::Null);
        assert_eq!(config["e"], json!([7]));
    }
}
