//! The node's network: a pair of interfaces connects it to this machine. The node routes to its pods. Addresses are in the range
//! for benchmarks (RFC 2544), which no real network uses.

use std::{
    fmt,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::sandbox::Sandbox;

/// Numbers of networks on this machine, which is also the limit of nodes at one time.
const NUMBERS: std::ops::Range<u8> = 0..250;
/// Time limit for the removal of the interface after the end of the last process.
const REMOVAL_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// Addresses of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    number: u8,
}

/// The range of the pods' addresses, in CIDR notation.
#[derive(Debug, Clone, Copy)]
pub(super) struct PodRange(u8);

impl Network {
    /// Connects the node with the first free network.
    pub(super) fn connect(sandbox: &Sandbox) -> Result<Self> {
        let network = Self::reserve(sandbox.init())?;
        let (interface, pods) = (network.interface(), network.pods().to_string());
        let [machine, node] = [network.machine(), network.node()].map(|address| address.to_string());
        ip(&["address", "add", &format!("{machine}/30"), "dev", &interface])?;
        ip(&["link", "set", &interface, "up"])?;
        let inside = |arguments: &[&str]| run(sandbox.enter("ip").args(arguments));
        inside(&["address", "add", &format!("{node}/30"), "dev", "eth0"])?;
        inside(&["link", "set", "eth0", "up"])?;
        inside(&["route", "add", "default", "via", &machine])?;
        ip(&["route", "add", &pods, "via", &node])?;
        Ok(network)
    }

    /// Creates a pair of interfaces, one in the namespace of the process. The name of the other reserves the number.
    fn reserve(process: u32) -> Result<Self> {
        for number in NUMBERS {
            let network = Self { number };
            if network.path().exists() {
                continue;
            }
            let process = process.to_string();
            let created = ip(&[
                "link",
                "add",
                &network.interface(),
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                &process,
            ]);
            match created {
                Ok(()) => return Ok(network),
                // Another process was faster.
                Err(_) if network.path().exists() => {}
                Err(error) => return Err(error.context("connect the node to this machine")),
            }
        }
        bail!("all {} networks for nodes are in use", NUMBERS.len());
    }

    /// Address of this machine for the node and its pods.
    pub(super) fn machine(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.number, 1)
    }

    /// Address of the node.
    pub(super) fn node(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.number, 2)
    }

    pub(super) fn pods(self) -> PodRange {
        PodRange(self.number)
    }

    /// Name of the interface on this machine.
    pub(super) fn interface(self) -> String {
        format!("headroom-{}", self.number)
    }

    /// Waits until the kernel has removed the interface, which it does a moment after the last process of the node has ended.
    pub(super) fn await_removal(self) -> Result<()> {
        let deadline = Instant::now() + REMOVAL_LIMIT;
        while self.path().exists() {
            ensure!(
                Instant::now() < deadline,
                "the interface {} remains {} s after the end of the node",
                self.interface(),
                REMOVAL_LIMIT.as_secs()
            );
            sleep(POLL);
        }
        Ok(())
    }

    fn path(self) -> PathBuf {
        Path::new("/sys/class/net").join(self.interface())
    }
}

impl fmt::Display for PodRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "198.19.{}.0/24", self.0)
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    run(Command::new("ip").args(arguments))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context("start ip (iproute2)")?;
    ensure!(
        output.status.success(),
        "{:?}: {}",
        command.get_args().collect::<Vec<_>>(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
