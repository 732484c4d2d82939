//! [`Image`]: an image of this workspace, its name, Dockerfile and program.

use clap::ValueEnum;

/// Version of all programs and images.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Image {
    /// The admission webhook.
    Webhook,
    /// The node agent.
    Agent,
    /// kubectl-headroom.
    Cli,
    /// Sandbox container of test pods.
    Pause,
    /// Shell and commands for test pods.
    Busybox,
}

impl Image {
    /// Images of Headroom. The others are for tests.
    pub const OURS: [Self; 3] = [Self::Webhook, Self::Agent, Self::Cli];

    /// Repository of the image, as in the manifests. Those of test images have no registry of their own.
    pub const fn repository(self) -> &'static str {
        match self {
            Self::Webhook => "headroom-webhook",
            Self::Agent => "headroom-agent",
            Self::Cli => "kubectl-headroom",
            Self::Pause => "localhost/pause",
            Self::Busybox => "localhost/busybox",
        }
    }

    /// Repository and tag, as in a pod's `image`.
    pub fn reference(self) -> String {
        let tag = if self.is_ours() { VERSION } else { "1" };
        format!("{}:{tag}", self.repository())
    }

    /// File name of the program.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Webhook => "headroom-webhook",
            Self::Agent => "headroom-agent",
            Self::Cli => "kubectl-headroom",
            Self::Pause | Self::Busybox => "busybox",
        }
    }

    /// Path of the Dockerfile in the workspace.
    pub const fn dockerfile(self) -> &'static str {
        match self {
            Self::Webhook => "deploy/docker/webhook.Dockerfile",
            Self::Agent => "deploy/docker/agent.Dockerfile",
            Self::Cli => "deploy/docker/cli.Dockerfile",
            Self::Pause => "crates/testbed/images/pause.Dockerfile",
            Self::Busybox => "crates/testbed/images/busybox.Dockerfile",
        }
    }

    /// True for a program of this workspace.
    pub const fn is_ours(self) -> bool {
        match self {
            Self::Webhook | Self::Agent | Self::Cli => true,
            Self::Pause | Self::Busybox => false,
        }
    }
}
