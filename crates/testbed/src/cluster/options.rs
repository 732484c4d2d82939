//! The options of a control plane: scheduler, controllers, and further flags of the API server.

use xtask::setup::controlplane::Component;

/// What runs beside etcd and the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Runs the scheduler.
    pub has_scheduler: bool,
    /// Runs the controllers that Deployments, service accounts, namespaces, node conditions and owner references need.
    /// Without them no service account exists, so no pod can be made before one is, and nodes keep the taint
    /// `node.kubernetes.io/not-ready`.
    pub has_controllers: bool,
    /// More flags for the API server, each like `--feature-gates=X=true`.
    pub apiserver_flags: Vec<String>,
}

impl ClusterOptions {
    /// With scheduler and controllers.
    pub fn full() -> Self {
        Self {
            has_scheduler: true,
            has_controllers: true,
            ..Self::default()
        }
    }

    pub(super) fn components(&self) -> Vec<Component> {
        let mut components = vec![Component::Etcd, Component::ApiServer];
        components.extend(self.has_scheduler.then_some(Component::Scheduler));
        components.extend(self.has_controllers.then_some(Component::ControllerManager));
        components
    }
}
