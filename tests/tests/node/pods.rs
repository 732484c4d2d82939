//! Tests of pods on a real node: they run, kubectl reaches them through the API server and the kubelet, they reach Services, and
//! they survive restarts of the kubelet and containerd. Nothing of the node remains when it stops.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use e2e::node_traces::Traces;
use headroom_testbed::{
    cluster::{Cluster, ClusterOptions},
    real_node::{RealNode, RealNodeOptions, pods},
};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};
use xtask::setup::controlplane::{self, Component};

const NODE: &str = "real-0";
const PAGE: &str = "text of the page";
/// Ports that a kubelet, the node's relay to the API server and its DNS use.
const TCP: [u16; 2] = [10_250, 6443];
const DNS: u16 = 53;

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_are_reachable_and_survive_restarts_and_nothing_remains() {
    // The node has its own network, so other servers of this machine may use the same ports.
    let _used = TCP.map(|port| TcpListener::bind(("0.0.0.0", port)));
    let _dns = UdpSocket::bind(("0.0.0.0", DNS));
    let cluster = Cluster::start(ClusterOptions::for_real_node())
        .await
        .expect("cluster");
    let mut node = RealNode::start(&cluster, RealNodeOptions::new(NODE))
        .await
        .expect("node");
    let client = cluster.client().await.expect("client");
    let reserved = allocatable(&client).await;
    assert_ne!(
        reserved["cpu"], reserved["capacity"],
        "some CPU is reserved for the system"
    );

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let serves =
        format!("mkdir /www; echo '{PAGE}' >/www/index.html; echo started; exec httpd -f -p 8080 -h /www");
    let page = pods::script("page", &serves, &Value::Null).expect("pod");
    let before = pods::run(&pods, &page).await.expect("run a pod");
    expose_page(&client).await;

    let kubectl = AdminKubectl::new(cluster.kubeconfig());
    assert_eq!(kubectl.run(&["logs", "page"]), "started\n");
    assert_eq!(
        kubectl.run(&["exec", "page", "--", "cat", "/www/index.html"]),
        format!("{PAGE}\n")
    );
    kubectl.check_port_forward();
    kubectl.check_names_and_addresses(&client).await;

    // In this order, the kubelet connects to the new containerd at once.
    node.restart_containerd().await.expect("restart containerd");
    node.restart_kubelet().await.expect("restart the kubelet");
    let idle = pods::idle("idle", &json!({"requests": {"cpu": "100m"}})).expect("pod");
    pods::run(&pods, &idle).await.expect("run another pod");
    let after = pods.get("page").await.expect("the first pod");
    assert_eq!(container(&before), container(&after), "the container is the same");
    node.check().expect("all daemons run");

    let traces = Traces::new(node.folder(), node.interface());
    node.stop().expect("stop the node");
    assert_eq!(traces.list(), [""; 0]);
}

/// Allocatable CPU, and its capacity.
async fn allocatable(client: &Client) -> Value {
    let node = Api::<Node>::all(client.clone())
        .get(NODE)
        .await
        .expect("the Node");
    let status = node.status.expect("status");
    json!({
        "cpu": status.allocatable.expect("allocatable")["cpu"],
        "capacity": status.capacity.expect("capacity")["cpu"],
    })
}

/// Identity and restarts of the pod's container.
fn container(pod: &Pod) -> (String, i32) {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.clone());
    let status = statuses.expect("statuses").pop().expect("a container");
    (status.container_id.expect("an identity"), status.restart_count)
}

async fn expose_page(client: &Client) {
    let service = json!({
        "metadata": {"name": "page"},
        "spec": {"selector": {"app": "page"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    let service: Service = serde_json::from_value(service).expect("a Service");
    let services: Api<Service> = Api::default_namespaced(client.clone());
    services
        .create(&PostParams::default(), &service)
        .await
        .expect("create a Service");
}

/// kubectl with the administrator's rights. The API server verifies the kubelet's certificate.
struct AdminKubectl<'k> {
    program: PathBuf,
    kubeconfig: &'k Path,
}

impl<'k> AdminKubectl<'k> {
    fn new(kubeconfig: &'k Path) -> Self {
        let programs = controlplane::ensure(&[Component::Kubectl]).expect("kubectl");
        let program = programs.into_values().next().expect("one program").path;
        Self { program, kubeconfig }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Standard output of a command that succeeds.
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("start kubectl");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn check_port_forward(&self) {
        let mut command = self.command(&["port-forward", "pod/page", ":8080"]);
        let mut forward = command.stdout(Stdio::piped()).spawn().expect("start kubectl");
        let mut line = String::new();
        // kubectl writes a line for each connection, and ends if that fails.
        let mut output = BufReader::new(forward.stdout.take().expect("output"));
        output.read_line(&mut line).expect("a line");
        let address = line
            .strip_prefix("Forwarding from ")
            .and_then(|rest| rest.split(' ').next());
        let page = get(address.expect("an address"), "/");
        forward.kill().expect("end kubectl");
        forward.wait().expect("the end");
        assert!(page.contains(PAGE), "{page}");
    }

    /// From the pod: DNS, and the address of a Service.
    async fn check_names_and_addresses(&self, client: &Client) {
        let services: Api<Service> = Api::default_namespaced(client.clone());
        let address = services
            .get("page")
            .await
            .expect("the Service")
            .spec
            .expect("spec")
            .cluster_ip;
        let address = address.expect("an address");
        let name = "page.default.svc.cluster.local";
        let resolved = self.run(&["exec", "page", "--", "nslookup", name]);
        assert!(resolved.contains(&address), "{resolved}");
        let request = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {name} 80");
        let page = self.run(&["exec", "page", "--", "sh", "-c", &request]);
        assert!(page.contains(PAGE), "{page}");
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("set a limit");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("send");
    let mut response = Vec::new();
    // The server may reset the connection after its response.
    stream.read_to_end(&mut response).ok();
    String::from_utf8(response).expect("UTF-8")
}
