//! Changes of the shipped manifests for a real node: compressed durations, and patches of a test.

use std::fs;

use headroom_testbed::webhook::DEMO_TIMING;

use crate::rendered_manifests::Installation;

/// Component with the changes, in the copy of the manifests.
const COMPONENT: &str = "test";
/// A user's own overlay of the base.
const OWN: &str = "overlays/own";
/// Overlay with a configuration file.
const CONFIGURATION: &str = "overlays/configuration";

/// Changes of the base. The names of images stay: a kubelet resolves them to the imported ones.
#[derive(Debug, Clone)]
pub struct Changes {
    /// Components of the manifests to add.
    pub components: Vec<String>,
    /// Further arguments of the webhook. The default accepts hints with compressed durations.
    pub webhook_args: Vec<String>,
    /// Further arguments of the agent. The default compresses its durations.
    pub agent_args: Vec<String>,
    /// Entries of kustomize's list `patches`, in YAML.
    pub patches: String,
    /// Text of the webhook's configuration file, with the overlay `configuration`.
    pub configuration: Option<String>,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            components: Vec::new(),
            webhook_args: vec![DEMO_TIMING.to_owned()],
            agent_args: vec!["--timing=demo".to_owned()],
            patches: String::new(),
            configuration: None,
        }
    }
}

impl Changes {
    /// Renders the manifests. The webhook makes its certificates.
    pub fn render(&self) -> Installation {
        let overlay = self.configuration.as_ref().map_or(OWN, |_| CONFIGURATION);
        let mut installation = Installation::render_overlay(overlay);
        if let Some(text) = &self.configuration {
            fs::write(installation.folder().join(overlay).join("config.yaml"), text)
                .expect("a configuration");
        }
        for component in &self.components {
            installation.add_component(component);
        }
        let folder = installation.folder().join("components").join(COMPONENT);
        fs::create_dir(&folder).expect("a folder");
        let patches = [
            arguments("Deployment", "headroom-webhook", &self.webhook_args),
            arguments("DaemonSet", "headroom-agent", &self.agent_args),
            self.patches.clone(),
        ];
        let text = format!(
            "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n{}",
            patches.concat()
        );
        fs::write(folder.join("kustomization.yaml"), text).expect("a component");
        installation.add_component(COMPONENT);
        installation
    }
}

/// A patch that adds arguments to the container.
fn arguments(kind: &str, name: &str, arguments: &[String]) -> String {
    let operation = |argument: &String| {
        format!("      - {{op: add, path: /spec/template/spec/containers/0/args/-, value: '{argument}'}}\n")
    };
    let operations: String = arguments.iter().map(operation).collect();
    if operations.is_empty() {
        return operations;
    }
    format!("  - target: {{kind: {kind}, name: {name}}}\n    patch: |\n{operations}")
}
