//! Options of a real node: name, images, and changes of the kubelet's configuration.

use std::path::PathBuf;

use serde_json::Value;

/// Options of a real node.
#[derive(Debug, Clone, PartialEq)]
pub struct RealNodeOptions {
    /// Name of the Node.
    pub name: String,
    /// Folder for the node's temporary state folder; `None` for `TMPDIR`.
    pub folder: Option<PathBuf>,
    /// Archives of images that are imported before the kubelet starts, in addition to those of `pause` and `busybox`.
    pub images: Vec<PathBuf>,
    /// Changes of the kubelet's configuration, as a JSON merge patch.
    pub kubelet: Value,
    /// Further flags of the kubelet, such as `--node-labels=a=b`.
    pub kubelet_flags: Vec<String>,
}

impl RealNodeOptions {
    /// A node with this machine's CPUs and memory, of which 100m and 512 MiB are reserved for the system.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            folder: None,
            images: Vec::new(),
            kubelet: Value::Null,
            kubelet_flags: Vec::new(),
        }
    }
}
