//! Names of Fluid, on Pods, on PersistentVolumeClaims and on nodes, and of the objects that configure its webhook.

/// API group of Datasets and of their runtimes.
pub const FLUID_GROUP: &str = "data.fluid.io";

/// API version of Datasets and of their runtimes.
pub const FLUID_VERSION: &str = "v1alpha1";

/// Namespace of Fluid's own workloads.
pub const FLUID_NAMESPACE: &str = "fluid-system";

/// Name of Fluid's own MutatingWebhookConfiguration.
pub const FLUID_OWN_CONFIGURATION: &str = "fluid-pod-admission-webhook";

/// Entry in a MutatingWebhookConfiguration for pods that read Datasets through the nodes.
pub const FLUID_SERVERFUL_ENTRY: &str = "fuse.serverful.fluid.io";

/// ConfigMap in [`FLUID_NAMESPACE`] with the plugins of Fluid's webhook.
pub const FLUID_PLUGINS: &str = "webhook-plugins";

/// Key of [`FLUID_PLUGINS`] with the plugins, as YAML.
pub const FLUID_PLUGINS_PROFILE: &str = "pluginsProfile";

/// Label on a Pod: `true` if Fluid places it, and runs the clients of its data on the nodes.
pub const FLUID_SERVERFUL: &str = "fuse.serverful.fluid.io/inject";

/// Label on a Pod: `true` if Fluid injects the clients of its data as sidecars.
pub const FLUID_SERVERLESS: &str = "serverless.fluid.io/inject";

/// Older form of [`FLUID_SERVERLESS`].
pub const FLUID_SIDECAR: &str = "fuse.sidecar.fluid.io/inject";

/// Label on a Pod: `true` if its sidecars are injected.
pub const FLUID_SIDECAR_DONE: &str = "done.sidecar.fluid.io/inject";

/// Label on a Pod: `false` if Fluid leaves it unchanged.
pub const FLUID_ENABLE: &str = "fluid.io/enable-injection";

/// Annotation on a Pod: `true` if its Datasets may be unbound.
pub const FLUID_SKIP_PRECHECK: &str = "sidecar.fluid.io/skip-precheck";

/// Annotation on a Pod: `true` if Fluid adds a container that reads files in advance.
pub const FLUID_PREFETCH: &str = "file-prefetcher.fluid.io/inject";

/// Annotation on a Pod: names of its Datasets, sorted, with commas between them.
pub const FLUID_DATASETS_IN_USE: &str = "fluid.io/datasets-in-use";

/// Label on a PersistentVolumeClaim: the Dataset that it belongs to, if that has another name.
pub const FLUID_MANAGED_BY: &str = "fluid.io/managed-by";

/// Older form of [`FLUID_MANAGED_BY`].
pub const FLUID_WRAPPED_BY: &str = "fluid.io/wrapped-by";

/// Start of the label of nodes with a worker of a Dataset, and of the label of its PersistentVolumeClaim.
pub const FLUID_WORKER_PREFIX: &str = "fluid.io/s-";

/// Start of the label of nodes with a client of a Dataset.
pub const FLUID_FUSE_PREFIX: &str = "fluid.io/f-";

/// Label on a node with cached data: the number of Datasets.
pub const FLUID_DATASET_NUM: &str = "fluid.io/dataset-num";

/// Start and end of a label on a Pod. The name of a PersistentVolumeClaim is between them, and the value `required`
/// restricts the Pod to nodes with its data.
pub const FLUID_SCHEDULE: (&str, &str) = ("fluid.io/dataset.", ".sched");

/// Locality in the plugins' configuration: nodes with a worker.
pub const FLUID_NODE_LOCALITY: &str = "fluid.io/node";

/// Locality in the plugins' configuration: nodes with a client.
pub const FLUID_FUSE_LOCALITY: &str = "fluid.io/fuse";
