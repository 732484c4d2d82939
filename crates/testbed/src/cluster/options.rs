//! Options of a control plane: scheduler, controllers, services for a real node, and further flags of the API server.

use xtask::setup::controlplane::Component;

/// Components in addition to etcd and the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterOptions {
    pub has_scheduler: bool,
    /// Runs the controllers of Deployments, service accounts, namespaces, node conditions and owner references. Without them,
    /// pods cannot be created until the caller creates a service account, and nodes keep the taint
    /// `node.kubernetes.io/not-ready`.
    pub has_controllers: bool,
    /// Prepares the control plane for [`crate::real_node::RealNode`]: controllers of `DaemonSets` and of the endpoints of Services,
    /// access to kubelets, and admission webhooks at the addresses of pods.
    pub has_real_node: bool,
    /// Further flags of the API server, such as `--feature-gates=X=true`.
    pub apiserver_flags: Vec<String>,
}

impl ClusterOptions {
    /// All components: scheduler and controllers.
    pub fn full() -> Self {
        Self {
            has_scheduler: true,
            has_controllers: true,
            ..Self::default()
        }
    }

    /// All components, for [`crate::real_node::RealNode`].
    pub fn for_real_node() -> Self {
        Self {
            has_real_node: true,
            ..Self::full()
        }
    }

    pub(super) fn components(&self) -> Vec<Component> {
        let mut components = vec![Component::Etcd, Component::ApiServer];
        components.extend(self.has_scheduler.then_some(Component::Scheduler));
        components.extend(self.has_controllers.then_some(Component::ControllerManager));
        components
    }
}
