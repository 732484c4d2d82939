//! [`Installation`] is a copy of the installation's manifests with fresh certificates, and the objects that kustomize
//! renders.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::SystemTime,
};

use headroom_domain::names;
use headroom_kit::tls::self_signed;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{Container, Pod, PodSpec, PodTemplateSpec},
};
use kube::{Api, Client, Resource, ResourceExt as _, api::PostParams};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;
use xtask::{
    setup::controlplane::{self, Component},
    workspace,
};

/// The overlay with certificate files, as on the installation page.
pub const OVERLAY: &str = "overlays/certificate-files";

/// A user's own overlay of the base.
const OWN_OVERLAY: &str = "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - ../../base
components: []
";

/// A copy of the manifests with fresh certificates.
pub struct Installation {
    folder: TempDir,
    kubectl: PathBuf,
    overlay: &'static str,
    /// The rendered objects of the overlay.
    pub objects: Vec<Value>,
}

impl Installation {
    pub fn render() -> Self {
        Self::render_overlay(OVERLAY)
    }

    /// Renders an overlay, given by its folder. If there is none, it is one of the base alone.
    pub fn render_overlay(overlay: &'static str) -> Self {
        let programs = controlplane::ensure(&[Component::Kubectl]).expect("kubectl");
        let kubectl = programs.into_values().next().expect("the program asked for").path;
        let folder = tempfile::tempdir().expect("a folder");
        copy(&workspace::root().join("deploy/kustomize"), folder.path());
        let own = folder.path().join(overlay);
        if !own.exists() {
            fs::create_dir(&own).expect("a folder");
            fs::write(own.join("kustomization.yaml"), OWN_OVERLAY).expect("an overlay");
        }
        let service = |name: &str| format!("{name}.{}.svc", names::NAMESPACE);
        let names = [names::WEBHOOK_SERVICE, names::HINTS_SERVICE].map(service);
        self_signed::ensure(&folder.path().join(OVERLAY), &names, SystemTime::now()).expect("certificates");
        let mut installation = Self {
            folder,
            kubectl,
            overlay,
            objects: Vec::new(),
        };
        installation.objects = installation.rendered();
        installation
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn rendered(&self) -> Vec<Value> {
        let rendered = self.kubectl(&["kustomize", self.overlay]);
        objects(&rendered.stdout)
    }

    /// Adds a component to the overlay.
    pub fn add_component(&mut self, name: &str) {
        let overlay = self.folder().join(self.overlay).join("kustomization.yaml");
        let text = fs::read_to_string(&overlay).expect("the overlay");
        let entry = format!("components:\n  - ../../components/{name}\n");
        let list = text
            .replace("components: []\n", "components:\n")
            .replace("components:\n", &entry);
        assert!(list.contains(&entry), "{text}");
        fs::write(&overlay, list).expect("the overlay");
        self.objects = self.rendered();
    }

    /// Applies the overlay as on its page; the API server must accept every object without a warning.
    pub fn apply(&self, kubeconfig: &Path) {
        let output = self.try_apply(kubeconfig);
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && warnings.is_empty(), "{warnings}");
        let applied = String::from_utf8_lossy(&output.stdout).lines().count();
        assert_eq!(applied, self.objects.len());
    }

    /// Output of kubectl for applying the overlay.
    pub fn try_apply(&self, kubeconfig: &Path) -> Output {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let strict = "--validate=strict";
        self.run(&[
            "apply",
            "--server-side",
            strict,
            "--kustomize",
            self.overlay,
            &kubeconfig,
        ])
    }

    /// Runs kubectl in the copy.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut kubectl = Command::new(&self.kubectl);
        kubectl.args(arguments).current_dir(self.folder.path());
        kubectl.output().expect("start kubectl")
    }

    /// Runs kubectl in the copy; fails if it does not succeed.
    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert!(output.status.success(), "kubectl {arguments:?}: {output:?}");
        output
    }

    /// All objects of one kind.
    pub fn all<K: Resource<DynamicType = ()> + DeserializeOwned>(&self) -> Vec<K> {
        let of_kind =
            |object: &&Value| object["kind"] == *K::kind(&()) && object["apiVersion"] == *K::api_version(&());
        let objects = self.objects.iter().filter(of_kind);
        objects
            .map(|object| serde_json::from_value(object.clone()).expect("an object of its kind"))
            .collect()
    }

    /// The object of a kind with this name.
    pub fn get<K: Resource<DynamicType = ()> + DeserializeOwned>(&self, namespace: &str, name: &str) -> K {
        let is_it =
            |object: &K| object.name_any() == name && object.namespace().as_deref() == Some(namespace);
        let found = self.all().into_iter().find(is_it);
        found.unwrap_or_else(|| panic!("no {} {namespace}/{name}", K::kind(&())))
    }

    pub fn webhook(&self) -> PodTemplateSpec {
        let deployment: Deployment = self.get(names::NAMESPACE, names::WEBHOOK_SERVICE);
        deployment.spec.expect("a specification").template
    }

    pub fn webhook_args(&self) -> headroom_webhook::args::Args {
        let line = command_line("headroom-webhook", container(&self.webhook()));
        headroom_webhook::start::flags::try_parse_from(line).expect("flags of the webhook")
    }

    pub fn agent(&self) -> PodTemplateSpec {
        let daemons: DaemonSet = self.get(names::AGENT_NAMESPACE, names::AGENT_SERVICE_ACCOUNT);
        daemons.spec.expect("a specification").template
    }

    /// Both pod templates with their namespaces.
    pub fn pods(&self) -> [(&'static str, PodTemplateSpec); 2] {
        [
            (names::NAMESPACE, self.webhook()),
            (names::AGENT_NAMESPACE, self.agent()),
        ]
    }
}

/// Parses YAML documents as objects.
pub fn objects(yaml: &[u8]) -> Vec<Value> {
    let text = str::from_utf8(yaml).expect("UTF-8");
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    objects.iter_mut().for_each(join_base64);
    objects
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("a copy");
        }
    }
}

/// Joins the lines into which kustomize breaks base64: the API server accepts them, our types do not.
fn join_base64(object: &mut Value) {
    let join = |text: &mut Value| {
        if let Value::String(text) = text {
            text.retain(|character| character != '\n');
        }
    };
    let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        webhook.pointer_mut("/clientConfig/caBundle").map(join);
    }
    if object["kind"] == "Secret" {
        let data = object["data"].as_object_mut().expect("content");
        data.values_mut().for_each(join);
    }
}

pub fn spec(template: &PodTemplateSpec) -> &PodSpec {
    template.spec.as_ref().expect("a specification")
}

/// The only container of the pods.
pub fn container(template: &PodTemplateSpec) -> &Container {
    let [container] = spec(template).containers.as_slice() else {
        panic!("one container");
    };
    container
}

pub fn labels(template: &PodTemplateSpec) -> BTreeMap<String, String> {
    let metadata = template.metadata.clone().expect("metadata");
    metadata.labels.expect("labels")
}

/// True if the selector is not empty and all of its labels match.
pub fn selects(selector: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Creates a pod of this template as its controller would, as a dry run.
///
/// # Errors
/// The API server's refusal.
pub async fn try_create(client: &Client, namespace: &str, template: PodTemplateSpec) -> kube::Result<Pod> {
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name = Some("made".to_owned());
    let pod = Pod {
        metadata,
        spec: template.spec,
        status: None,
    };
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    Api::namespaced(client.clone(), namespace)
        .create(&dry_run, &pod)
        .await
}

/// The container's command line with the kubelet's variables expanded.
pub fn command_line(program: &str, container: &Container) -> Vec<String> {
    let arguments = container.args.iter().flatten();
    [program.to_owned()]
        .into_iter()
        .chain(arguments.map(|argument| argument.replace("$(POD_NAME)", "webhook-0")))
        .collect()
}
