//! The real agent as a process with less than it would like, and what it says of that.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use headroom_agent::status::Status;
use headroom_domain::estimate::Profile;
use headroom_proto::v1alpha1::Mode;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use xtask::headroom::{
    agent::{Agent, Options},
    get,
};

use crate::{
    hint_server::{HintServer, this_machine},
    pace::happens_within,
    stand::programs,
};

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Leaves root these two capabilities, as the DaemonSet does.
pub const TWO_CAPABILITIES: [&str; 3] = ["setpriv", "--inh-caps=-all", "--bounding-set=-all,+bpf,+perfmon"];

/// An agent that was started by some program, and the server it reports to.
#[derive(Debug)]
pub struct Confined {
    /// The agent.
    pub agent: Agent,
    /// The server.
    pub server: HintServer,
    _folder: TempDir,
}

impl Confined {
    /// Starts both; the agent by a program with its arguments, which takes the agent's own behind them.
    pub async fn start(confiner: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let server = HintServer::start(ANY_PORT, &folder.path().join("tls"), this_machine()).await;
        let options = Options {
            program: programs().await.agent,
            folder: folder.path().to_owned(),
            node: "n1".to_owned(),
            token: "token".to_owned(),
            servers: vec![server.address],
            ca: server.ca.clone(),
            timing: Profile::Demo,
            source: "auto".to_owned(),
            flags: Vec::new(),
        };
        Self {
            agent: Agent::spawn_under(confiner, &options).expect("start the agent"),
            server,
            _folder: folder,
        }
    }

    /// The first status that is as wanted.
    pub async fn status_until(&mut self, what: &str, is_it: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + happens_within();
        loop {
            self.agent.process.check().expect("the agent goes on");
            let status = self.agent.status().await;
            match status {
                Ok(status) if is_it(&status) => return status,
                status if Instant::now() > deadline => {
                    panic!("not in {:?}: {what}; {status:?}", happens_within())
                }
                _not_yet => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Makes sure that it is in this mode and says so in `/status` with all these words, in a metric and in the hint, and
    /// that it has given up what capabilities it had. The status that said it.
    pub async fn says_mode(&mut self, mode: Mode, words: &[&str]) -> Status {
        let name = mode.as_str_name().trim_start_matches("MODE_");
        let status = self.status_until(name, |status| status.mode == name).await;
        let sentence = &status.mode_sentence;
        for word in words {
            assert!(sentence.contains(word), "{word:?} is not in {sentence:?}");
        }
        self.server
            .report_until(name, |heard| heard.report.mode() == mode)
            .await;
        let (_, metrics) = get(self.agent.admin, "/metrics").await.expect("metrics");
        let metrics = String::from_utf8_lossy(&metrics).into_owned();
        let series = format!(r#"headroom_agent_mode{{mode="{name}"}} 1"#);
        assert!(metrics.contains(&series), "{metrics}");
        assert_eq!(privileges(self.agent.process.pid()), [0], "it keeps none");
        status
    }

    /// As [`Self::says_mode`], of an agent that goes by procfs; the log says it, too, and once.
    pub async fn says_everywhere(&mut self, words: &[&str]) {
        self.says_mode(Mode::Proc, words).await;
        let log = fs::read_to_string(self.agent.process.log()).expect("log");
        let lines = log
            .lines()
            .filter(|line| line.contains("WARN") && line.contains("CPU use comes from /proc/stat"));
        assert_eq!(lines.count(), 1, "{log}");
    }
}

/// The sets of capabilities, effective and permitted, of all threads of a process.
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
