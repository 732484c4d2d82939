//! Tests of the path to the webhook through a real API server and a kubelet double: with any credential of a
//! kubeconfig, to each replica, and the errors when it fails.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use e2e::{
    people::{NODE, People},
    stand::AUTO,
};
use headroom_domain::names;
use headroom_testbed::agent::write_secret;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// The administrator's kubeconfig as a value.
fn kubeconfig(people: &People, user: &str) -> Value {
    let text = fs::read_to_string(people.kubeconfig(user)).expect("a kubeconfig");
    serde_saphyr::from_str(&text).expect("YAML")
}

fn write(people: &People, name: &str, value: &Value) -> PathBuf {
    let file = people.stand.cluster.dir().join(name);
    write_secret(&file, &value.to_string()).expect("write");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn every_credential_of_a_kubeconfig_leads_to_the_webhook() {
    let people = People::start().await;
    people.grant("ann", names::VIEWER).await;
    let certificate = people.kubeconfig("ann");
    let shows = async |arguments: &[&str], file: &PathBuf| {
        let arguments = [arguments, &["top", "--once"]].concat();
        let table = people.ask(file, &arguments).await;
        assert!(table.contains(NODE), "{table}");
    };
    shows(&[], &certificate).await;

    let admin = people.stand.cluster.kubeconfig().to_owned();
    shows(&["--as", "ann"], &admin).await;
    let stranger = people.fail(&admin, &["--as", "bob", "top", "--once"]).await;
    assert!(stranger.contains(r#"User "bob" cannot get"#), "{stranger}");

    let mut config = kubeconfig(&people, "ann");
    let user = config["users"][0]["user"].take();
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {
            "clientCertificateData": pem(&user, "client-certificate"), "clientKeyData": pem(&user, "client-key"),
        },
    });
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "echo", "args": [credential.to_string()],
    }});
    shows(&[], &write(&people, "exec.kubeconfig", &config)).await;

    let mut config = kubeconfig(&people, "ann");
    let good = config["contexts"][0]["name"].as_str().expect("a name").to_owned();
    config["current-context"] = json!("nowhere");
    let file = write(&people, "contexts.kubeconfig", &config);
    shows(&["--context", &good], &file).await;
    let wrong = people.fail(&file, &["top", "--once"]).await;
    assert!(wrong.contains("cannot use the kubeconfig"), "{wrong}");
}

/// An HTTP proxy that opens tunnels, with the number of those it has opened; ended on drop.
async fn tunnelling_proxy() -> (SocketAddr, Arc<AtomicUsize>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("an address");
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let mut accept = JoinSet::new();
    accept.spawn(async move {
        let mut tunnels = JoinSet::new();
        while let Ok((mut client, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tunnels.spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.expect("a request"));
                }
                let head = String::from_utf8(head).expect("text");
                let target = head.split(' ').nth(1).expect("a target");
                assert!(head.starts_with("CONNECT "), "{head}");
                let mut server = TcpStream::connect(target).await.expect("connect");
                client
                    .write_all(b"HTTP/1.1 200 OK\r\n\r\n")
                    .await
                    .expect("answer");
                count.fetch_add(1, Ordering::Relaxed);
                // Either side may reset the connection.
                copy_bidirectional(&mut client, &mut server).await.ok();
            });
        }
    });
    (address, opened, accept)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_forwarded_ports_pass_the_proxy_of_the_kubeconfig() {
    let people = People::start().await;
    people.grant("ann", names::VIEWER).await;
    let (address, opened, _accept) = tunnelling_proxy().await;
    let mut config = kubeconfig(&people, "ann");
    config["clusters"][0]["cluster"]["proxy-url"] = json!(format!("http://{address}"));
    let file = write(&people, "proxy.kubeconfig", &config);
    let table = people.ask(&file, &["top", "--once"]).await;
    assert!(table.contains(NODE), "{table}");
    // Requests may share a tunnel, and the last one becomes the forwarded port.
    assert!(opened.load(Ordering::Relaxed) >= 1, "{opened:?}");

    config["clusters"][0]["cluster"]["proxy-url"] = json!("http://127.0.0.1:1");
    let file = write(&people, "no-proxy.kubeconfig", &config);
    let refused = people.fail(&file, &["top", "--once"]).await;
    assert!(
        refused.contains("the proxy http://127.0.0.1:1 (proxy-url of cluster"),
        "{refused}"
    );
}

/// The certificate or key of a user, from the kubeconfig or the file that it names.
fn pem(user: &Value, field: &str) -> String {
    if let Some(path) = user[field].as_str() {
        return fs::read_to_string(path).expect("PEM");
    }
    let data = user[format!("{field}-data")].clone();
    let bytes: k8s_openapi::ByteString = serde_json::from_value(data).expect("base64");
    String::from_utf8(bytes.0).expect("PEM")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_replica_is_queried_and_an_unreachable_one_is_named() {
    let people = People::start().await;
    people.grant("ann", names::VIEWER).await;
    let kubeconfig = people.kubeconfig("ann");
    let other = people.stand.webhook("webhook-1", AUTO).await;
    people.create_pod("webhook-1", Some(&other)).await;
    let question = ["pod", "explain", "shop/web"];
    let none = people.fail(&kubeconfig, &question).await;
    assert!(
        none.contains("replica webhook-0 keeps 0, replica webhook-1 keeps 0"),
        "{none}"
    );

    people.kubelet.set_pod(names::NAMESPACE, "webhook-1", None);
    let none = people.fail(&kubeconfig, &question).await;
    let reason = "pod webhook-1 in namespace headroom-system through the API server: cannot forward to port 9444: nothing \
                  listens on it";
    assert!(
        none.contains("replica webhook-0 keeps 0") && none.contains(reason),
        "{none}"
    );

    people.set_ready("webhook-0", false).await;
    let refused = people.fail(&kubeconfig, &["top", "--once"]).await;
    assert!(
        refused.starts_with("error: cannot connect to pod webhook-1"),
        "{refused}"
    );
    people.set_ready("webhook-1", false).await;
    assert_eq!(
        people.fail(&kubeconfig, &["top", "--once"]).await,
        "error: no pod behind Service headroom-hints in namespace headroom-system is ready; see `kubectl -n headroom-system \
         get pods`, or pass --namespace\n"
    );
}
