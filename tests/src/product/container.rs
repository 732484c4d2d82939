//! [`ContainerProcess`] reads the state of a container's first process from the node's procfs, and signals it.

use std::collections::BTreeMap;

use headroom_testbed::real_node::RealNode;
use k8s_openapi::api::core::v1::Pod;

/// First process of a container.
pub struct ContainerProcess<'n> {
    node: &'n RealNode,
    /// Process id in the node.
    pub pid: u32,
}

impl<'n> ContainerProcess<'n> {
    /// First process of the pod's only container, which runs.
    pub(super) fn find(node: &'n RealNode, pod: &Pod) -> Self {
        let statuses = pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten());
        let mut ids =
            statuses.filter_map(|status| status.container_id.as_deref()?.strip_prefix("containerd://"));
        let id = ids.next().expect("a container that runs");
        let output = node
            .ctr(&["tasks", "ls"])
            .expect("ctr")
            .output()
            .expect("start ctr");
        let tasks = String::from_utf8(output.stdout).expect("text");
        let line = tasks.lines().find(|line| line.starts_with(id)).expect("a task");
        let pid = line.split_whitespace().nth(1).and_then(|pid| pid.parse().ok());
        Self {
            node,
            pid: pid.expect("a process id"),
        }
    }

    /// Fields of `/proc/PID/status`.
    pub fn status(&self) -> BTreeMap<String, String> {
        let text = self.read("status");
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect()
    }

    /// Mount points of the container with their options.
    pub fn mounts(&self) -> Vec<(String, Vec<String>)> {
        let text = self.read("mountinfo");
        let mount = |line: &str| {
            let mut fields = line.split(' ').skip(4);
            let point = fields.next()?.to_owned();
            Some((point, fields.next()?.split(',').map(str::to_owned).collect()))
        };
        text.lines().filter_map(mount).collect()
    }

    /// Sends a signal, named as for `kill`.
    pub fn signal(&self, signal: &str) {
        let mut kill = self.node.enter("kill").expect("enter the node");
        let status = kill.arg(format!("-{signal}")).arg(self.pid.to_string()).status();
        assert!(status.expect("start kill").success());
    }

    fn read(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.pid);
        let output = self
            .node
            .enter("cat")
            .expect("enter the node")
            .arg(&path)
            .output();
        let output = output.expect("start cat");
        assert!(
            output.status.success(),
            "{path}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }
}
