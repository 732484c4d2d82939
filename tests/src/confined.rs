//! [`ConfinedAgent`] runs the real agent with fewer privileges or files than it needs, and checks that the agent
//! reports the loss everywhere.

use std::{fs, path::Path};

use headroom_agent::{
    kernel::probe::{Health, Hook},
    local::status::{ProgramStatus, Status},
};
use headroom_proto::v1alpha1::Mode;
use headroom_testbed::agent::AgentOptions;

use crate::agent::{AgentNode, Running};

/// Keeps only these two capabilities of root, as the DaemonSet does.
pub const TWO_CAPABILITIES: [&str; 3] = ["setpriv", "--inh-caps=-all", "--bounding-set=-all,+bpf,+perfmon"];

/// From this kernel release on, an open map can be read without `CAP_BPF`.
const READS_WITHOUT_RIGHTS: (u32, u32) = (5, 19);
/// Bit of `CAP_BPF` in a capability set.
const CAP_BPF: u64 = 1 << 39;

/// An agent started under another program, and its node.
#[derive(Debug)]
pub struct ConfinedAgent {
    pub agent: Running,
    pub node: AgentNode,
}

impl ConfinedAgent {
    /// Starts both; `confiner` is a program that executes the agent's command line, given as its last arguments.
    pub async fn start(confiner: &[&str]) -> Self {
        Self::start_with(confiner, &[]).await
    }

    /// Starts both like [`Self::start`], with additional flags of the agent.
    pub async fn start_with(confiner: &[&str], flags: &[&str]) -> Self {
        let node = AgentNode::start().await;
        let add =
            |options: &mut AgentOptions| options.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        Self {
            agent: node.agent_under(confiner, add).await,
            node,
        }
    }

    /// Checks that the agent reports this mode, with all of these words, in `/status`, in the CLI on the node, in a
    /// metric, in the hint and in the log, and that it has dropped all capabilities except the one that it reports as
    /// required by an older kernel. Returns that status.
    pub async fn assert_mode(&mut self, mode: Mode, words: &[&str]) -> Status {
        let name = mode.as_str_name().trim_start_matches("MODE_");
        let status = self.agent.mode_until(name).await;
        let shown = self.node.ask(&["status"]).expect("a table");
        for word in words {
            for sentence in [&status.mode_sentence, &shown] {
                assert!(sentence.contains(word), "{word:?} is not in {sentence:?}");
            }
        }
        self.node
            .server
            .report_until(name, |received| received.report.mode() == mode)
            .await;
        let series = format!(r#"headroom_agent_mode{{mode="{name}"}}"#);
        assert_eq!(
            self.agent.counted(&series).await,
            1,
            "{}",
            self.agent.metrics().await
        );
        let told = self.agent.lines(&status.mode_sentence);
        assert!(told > 0, "{}", self.agent.log());
        let says_kept = self.agent.warnings("requires CAP_BPF to read the counters") > 0;
        let kept = if says_kept && release() < READS_WITHOUT_RIGHTS {
            CAP_BPF
        } else {
            0
        };
        assert_eq!(privileges(self.agent.process.pid()), [kept], "it keeps no other");
        status
    }

    /// Checks that all hooks have this health for a reason that contains these words, in `/status`, in the CLI on the
    /// node and in the metric, and that the signal `sigma8` reports the same.
    pub async fn assert_all_hooks(&self, status: &Status, expected: Health, words: &[&str]) {
        let expected = expected.name();
        assert_eq!(status.programs.len(), Hook::ALL.len());
        for ProgramStatus {
            hook,
            health,
            flavour,
            reason,
            ..
        } in &status.programs
        {
            assert_eq!((health.as_str(), flavour), (expected, &None), "{hook}");
            let reason = reason.as_deref().unwrap_or_default();
            for word in words {
                assert!(reason.contains(word), "{hook}: {word:?} is not in {reason:?}");
            }
        }
        for health in [Health::Ok, Health::Unsupported, Health::Failed].map(Health::name) {
            let series = format!(r#"headroom_agent_hooks{{health="{health}"}}"#);
            let hooks = if health == expected { Hook::ALL.len() } else { 0 };
            assert_eq!(self.agent.counted(&series).await, hooks as u64, "{health}");
        }
        let shown = self.node.json("status").expect("the status");
        let shown = shown["programs"].as_array().expect("programs").iter();
        assert!(
            shown.clone().all(|program| program["health"] == expected),
            "{shown:?}"
        );
        let shown = self.node.json("signals").expect("the signals");
        let mut signals = status.signals.iter();
        let sigma8 = signals.find(|signal| signal.name == "sigma8").expect("sigma8");
        assert_eq!((sigma8.health.as_str(), sigma8.value), (expected, None));
        let mut shown = shown.as_array().expect("signals").iter();
        assert!(
            shown.any(|signal| signal["name"] == "sigma8" && signal["health"] == expected),
            "{shown:?}"
        );
        let missing = sigma8.missing.as_deref().unwrap_or_default();
        for word in words {
            assert!(missing.contains(word), "{word:?} is not in {missing:?}");
        }
    }

    /// Checks an agent in procfs mode like [`Self::assert_mode`]; its log contains one warning.
    pub async fn assert_procfs_everywhere(&mut self, words: &[&str]) -> Status {
        let status = self.assert_mode(Mode::Proc, words).await;
        let sentence = "CPU use comes from /proc/stat";
        let told = (self.agent.warnings(sentence), self.agent.lines(sentence));
        assert_eq!(told, (1, 1), "{}", self.agent.log());
        status
    }
}

/// Major and minor version of the kernel.
fn release() -> (u32, u32) {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").expect("the release");
    let mut numbers = text
        .split(['.', '-'])
        .map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().expect("two numbers");
    (next(), next())
}

/// Effective and permitted capability sets of all threads of a process.
pub fn privileges(pid: u32) -> Vec<u64> {
    let mut sets = Vec::new();
    for task in fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task")).expect("threads") {
        let status = fs::read_to_string(task.expect("a thread").path().join("status")).expect("its status");
        let values = status
            .lines()
            .filter_map(|line| line.strip_prefix("CapEff:").or(line.strip_prefix("CapPrm:")));
        sets.extend(values.map(|value| u64::from_str_radix(value.trim(), 16).expect("a set")));
    }
    sets.sort_unstable();
    sets.dedup();
    sets
}
