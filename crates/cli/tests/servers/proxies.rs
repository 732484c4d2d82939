//! Tests of the built binary behind proxies: variables of the environment as in Go programs, `proxy-url` of the kubeconfig,
//! and errors that name the proxy. Also the renewal of OIDC tokens, which only kubectl does.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use rstest::rstest;
use serde_json::{Value, json};
use tokio_rustls::rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use crate::support::{LoopbackServer, error_line, http_answer, kubeconfig, read_head, relay, text};

/// A port that refuses connections.
const CLOSED: &str = "http://127.0.0.1:1";
/// Resolves nowhere; only a proxy can reach it.
const REMOTE: &str = "api.example.test:6443";

/// The error line of a command that reads Nodes from this cluster.
fn nodes_error(cluster: &Value, variables: &[(&str, &str)]) -> String {
    let (_place, file) = kubeconfig(cluster, &json!({}));
    error_line(&["off"], &[&[("KUBECONFIG", text(&file))], variables].concat())
}

/// An HTTP proxy that answers requests itself, as if it were the server.
fn answering_proxy() -> LoopbackServer {
    LoopbackServer::refusing(400, "answered behind the proxy")
}

fn first_line(proxy: &LoopbackServer) -> String {
    let heads = proxy.heads();
    let head = heads.first().map_or("", String::as_str);
    head.lines().next().unwrap_or_default().to_owned()
}

#[rstest]
#[case::https("HTTPS_PROXY")]
#[case::lower_case_https("https_proxy")]
#[case::http("HTTP_PROXY")]
#[case::lower_case_http("http_proxy")]
fn a_loopback_server_is_reached_without_the_proxy_of_the_environment(#[case] variable: &str) {
    let server = LoopbackServer::refusing(400, "answered directly");
    let cluster = json!({"server": format!("http://{}", server.addr)});
    for value in [CLOSED, "://invalid"] {
        let line = nodes_error(&cluster, &[(variable, value)]);
        assert!(line.contains("answered directly"), "{value}: {line}");
    }
    let url = format!("http://{}", server.addr);
    let line = error_line(&["advise", "--prometheus", &url], &[(variable, CLOSED)]);
    assert!(line.contains("answered directly"), "{line}");
}

#[rstest]
#[case::upper("HTTP_PROXY", "http_proxy")]
#[case::only_lower("http_proxy", "UNUSED")]
fn plain_http_goes_to_the_proxy_in_absolute_form(#[case] variable: &str, #[case] other: &str) {
    let proxy = answering_proxy();
    for url in [format!("http://{}", proxy.addr), proxy.addr.clone()] {
        let variables = [(variable, url.as_str()), (other, CLOSED), ("HTTPS_PROXY", CLOSED)];
        let line = nodes_error(&json!({"server": format!("http://{REMOTE}")}), &variables);
        assert!(line.contains("answered behind the proxy"), "{line}");
        assert!(
            first_line(&proxy).starts_with(&format!("GET http://{REMOTE}/api/v1/nodes")),
            "{:?}",
            proxy.heads()
        );
    }
    let variables = [(variable, proxy.addr.as_str()), (other, CLOSED)];
    let line = error_line(
        &["advise", "--prometheus", "http://prometheus.example.test/x"],
        &variables,
    );
    assert!(line.contains("answered behind the proxy"), "{line}");
    let last = proxy.heads().pop().unwrap();
    assert!(
        last.starts_with("GET http://prometheus.example.test/x/api/v1/query_range?"),
        "{last}"
    );
}

#[rstest]
#[case::domain("example.test")]
#[case::leading_dot(".example.test")]
#[case::host_and_port("other, API.example.test:6443,")]
#[case::all("*")]
fn a_server_of_no_proxy_is_reached_directly(#[case] entries: &str) {
    for variable in ["NO_PROXY", "no_proxy"] {
        let proxy = answering_proxy();
        let variables = [("HTTP_PROXY", proxy.addr.as_str()), (variable, entries)];
        let line = nodes_error(&json!({"server": format!("http://{REMOTE}")}), &variables);
        assert!(
            line.contains("cannot be reached") && proxy.heads().is_empty(),
            "{line}"
        );
    }
}

#[rstest]
#[case::another_domain("example.org,ample.test")]
#[case::another_port("api.example.test:443")]
#[case::the_proxys_own_address("127.0.0.0/8")]
#[case::invalid("10.0.0.0/33,,:6443")]
fn a_server_outside_no_proxy_is_reached_through_the_proxy(#[case] entries: &str) {
    let proxy = answering_proxy();
    let variables = [("HTTP_PROXY", proxy.addr.as_str()), ("NO_PROXY", entries)];
    let line = nodes_error(&json!({"server": format!("http://{REMOTE}")}), &variables);
    assert!(line.contains("answered behind the proxy"), "{line}");
}

#[test]
fn the_proxy_of_the_kubeconfig_wins_over_the_environment() {
    let proxy = answering_proxy();
    let server = LoopbackServer::refusing(400, "answered directly");
    let cluster =
        json!({"server": format!("http://{}", server.addr), "proxy-url": format!("http://{}", proxy.addr)});
    let variables = [("HTTP_PROXY", CLOSED), ("HTTPS_PROXY", CLOSED), ("NO_PROXY", "*")];
    let line = nodes_error(&cluster, &variables);
    assert!(line.contains("answered behind the proxy"), "{line}");
}

/// A SOCKS 5 proxy that connects to `behind` whichever host is requested. It returns the requested host and port.
fn socks_proxy(behind: String) -> (String, thread::JoinHandle<io::Result<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let proxy = thread::spawn(move || {
        let (mut client, _) = listener.accept()?;
        let mut greeting = [0; 3];
        client.read_exact(&mut greeting)?;
        // Username and password, RFC 1929.
        client.write_all(&[5, greeting[2]])?;
        if greeting[2] == 2 {
            let mut login = [0; 10];
            client.read_exact(&mut login)?;
            assert_eq!(&login, b"\x01\x03ann\x04s:ct");
            client.write_all(&[1, 0])?;
        }
        let mut request = [0; 5];
        client.read_exact(&mut request)?;
        assert_eq!(request[..4], [5, 1, 0, 3], "a connection to a host by name");
        let mut host = vec![0; usize::from(request[4])];
        let mut port = [0; 2];
        client.read_exact(&mut host)?;
        client.read_exact(&mut port)?;
        client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
        relay(&client, &TcpStream::connect(behind)?)?;
        let host = String::from_utf8_lossy(&host).into_owned();
        Ok(format!("{host}:{}", u16::from_be_bytes(port)))
    });
    (addr, proxy)
}

#[rstest]
#[case::anonymous("")]
#[case::with_a_password("ann:s%3Act@")]
fn a_socks_proxy_is_asked_for_the_host(#[case] login: &str) {
    for is_in_kubeconfig in [true, false] {
        let server = LoopbackServer::refusing(400, "answered behind the proxy");
        let (addr, proxy) = socks_proxy(server.addr.clone());
        let url = format!("socks5://{login}{addr}");
        let mut cluster = json!({"server": format!("http://{REMOTE}")});
        let mut variables = Vec::new();
        if is_in_kubeconfig {
            cluster["proxy-url"] = json!(url);
        } else {
            variables.push(("HTTP_PROXY", url.as_str()));
        }
        let line = nodes_error(&cluster, &variables);
        assert!(line.contains("answered behind the proxy"), "{line}");
        assert_eq!(proxy.join().unwrap().unwrap(), REMOTE);
    }
}

/// A TLS server with a certificate for this name, and the certificate as PEM. It refuses requests.
fn tls_server(name: &str) -> (String, String) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![cert.der().clone()], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            if read_head(&mut stream).is_ok() {
                let body = json!({"kind": "Status", "status": "Failure", "code": 400, "message": "answered over TLS"});
                let answer = http_answer("400 Bad Request", &body.to_string());
                stream.write_all(answer.as_bytes()).unwrap();
                stream.conn.send_close_notify();
                stream.flush().unwrap();
            }
        }
    });
    (addr, cert.pem())
}

/// An HTTP proxy whose tunnels all end at `behind`.
fn tunnelling_proxy(behind: String) -> LoopbackServer {
    LoopbackServer::start(move |_, client| {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        relay(client, &TcpStream::connect(&behind)?)
    })
}

#[test]
fn a_tls_connection_is_tunnelled_and_verified_end_to_end() {
    let (behind, ca) = tls_server("api.example.test");
    let place = tempfile::tempdir().unwrap();
    let ca_file = place.path().join("ca.crt");
    fs::write(&ca_file, ca).unwrap();
    for (host, variable) in [
        (REMOTE, Some("HTTPS_PROXY")),
        (REMOTE, Some("https_proxy")),
        ("api.example.test", None),
    ] {
        let proxy = tunnelling_proxy(behind.clone());
        let url = format!("http://ann:s%3Act@{}", proxy.addr);
        let mut cluster =
            json!({"server": format!("https://{host}"), "certificate-authority": text(&ca_file)});
        if variable.is_none() {
            cluster["proxy-url"] = json!(url);
        }
        let variables: Vec<(&str, &str)> = variable.map(|name| (name, url.as_str())).into_iter().collect();
        let line = nodes_error(&cluster, &variables);
        assert!(line.contains("answered over TLS"), "{line}");
        let head = proxy.heads().pop().unwrap();
        let target = if host == REMOTE {
            REMOTE
        } else {
            "api.example.test:443"
        };
        assert!(
            head.starts_with(&format!("CONNECT {target} HTTP/1.1\r\n")),
            "{head}"
        );
        // ann:s:ct
        assert!(
            head.to_lowercase()
                .contains("proxy-authorization: basic yw5uonm6y3q=\r\n"),
            "{head}"
        );
    }
    let url = format!("https://{REMOTE}");
    let proxy = tunnelling_proxy(behind);
    let words = [
        "advise",
        "--prometheus",
        &url,
        "--prometheus-ca-file",
        text(&ca_file),
    ];
    let line = error_line(&words, &[("HTTPS_PROXY", &proxy.addr)]);
    assert!(line.contains("answered over TLS"), "{line}");
}

#[test]
fn a_proxy_may_itself_be_reached_over_tls() {
    // The proxy's certificate is verified with the cluster's CA, as in kubectl.
    let (addr, ca) = tls_server("localhost");
    let place = tempfile::tempdir().unwrap();
    let ca_file = place.path().join("ca.crt");
    fs::write(&ca_file, ca).unwrap();
    let port = addr.rsplit(':').next().unwrap();
    let cluster = json!({
        "server": format!("http://{REMOTE}"), "certificate-authority": text(&ca_file),
        "proxy-url": format!("https://localhost:{port}"),
    });
    let line = nodes_error(&cluster, &[]);
    assert!(line.contains("answered over TLS"), "{line}");
}

#[test]
fn errors_of_a_proxy_name_it_without_its_password() {
    let refusing = LoopbackServer::answering("403 Forbidden", "no");
    let server = json!({"server": format!("https://{REMOTE}")});
    let url = format!("http://ann:s3cret@{}", refusing.addr);
    let line = nodes_error(&server, &[("HTTPS_PROXY", &url)]);
    let named = format!("the proxy http://{} (HTTPS_PROXY)", refusing.addr);
    for part in [REMOTE, "context prod", named.as_str(), "403 Forbidden"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!line.contains("s3cret"), "{line}");

    let with_proxy = json!({"server": format!("https://{REMOTE}"), "proxy-url": CLOSED});
    let line = nodes_error(&with_proxy, &[]);
    for part in [
        REMOTE,
        "the proxy http://127.0.0.1:1 (proxy-url of cluster c in the kubeconfig)",
        "refused",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let prometheus = ["advise", "--prometheus", "https://prometheus.example.test"];
    let line = error_line(&prometheus, &[("https_proxy", "socks5://127.0.0.1:1")]);
    assert!(
        line.contains("the proxy socks5://127.0.0.1:1 (https_proxy)"),
        "{line}"
    );
}

#[rstest]
#[case::scheme(
    "ftp://proxy.example.test",
    "ftp://proxy.example.test",
    "http, https or socks5"
)]
#[case::space("http://pro xy", "http://pro xy", "not a URL")]
#[case::no_host("http://", "http://", "not a URL")]
#[case::password("ftp://ann:s3cret@proxy", "ftp://***@proxy", "http, https or socks5")]
#[case::password_in_a_broken_url("http://ann:s3 cret@proxy", "http://***@proxy", "not a URL")]
fn an_invalid_proxy_is_named_with_its_variable_and_value(
    #[case] value: &str,
    #[case] shown: &str,
    #[case] reason: &str,
) {
    let server = json!({"server": format!("https://{REMOTE}")});
    let from_kubeconfig = json!({"server": format!("https://{REMOTE}"), "proxy-url": value});
    for (line, origin) in [
        (nodes_error(&server, &[("https_proxy", value)]), "https_proxy"),
        (
            nodes_error(&from_kubeconfig, &[("NO_PROXY", "*")]),
            "proxy-url of cluster c in the kubeconfig",
        ),
        (
            error_line(
                &["advise", "--prometheus", "http://prometheus.example.test"],
                &[("HTTP_PROXY", value)],
            ),
            "HTTP_PROXY",
        ),
    ] {
        let start = format!("cannot use the proxy {shown:?} of {origin}: ");
        assert!(line.starts_with(&start) && line.contains(reason), "{line}");
        assert!(!line.contains("s3"), "{line}");
    }
}

#[test]
fn a_credential_plugin_gets_the_clusters_own_proxy_only() {
    let place = tempfile::tempdir().unwrap();
    let received = place.path().join("received");
    let script = format!(
        "printf %s \"$KUBERNETES_EXEC_INFO\" > {}; exit 1",
        text(&received)
    );
    let exec = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "provideClusterInfo": true,
        "command": "/bin/sh", "args": ["-c", script],
    }});
    for own in [None, Some("http://proxy.example.test:3128")] {
        let mut cluster = json!({"server": format!("https://{REMOTE}")});
        if let Some(own) = own {
            cluster["proxy-url"] = json!(own);
        }
        let (_place, file) = kubeconfig(&cluster, &exec);
        error_line(&["off"], &[("KUBECONFIG", text(&file)), ("HTTPS_PROXY", CLOSED)]);
        let info: Value = serde_json::from_slice(&fs::read(&received).unwrap()).unwrap();
        assert_eq!(info["spec"]["cluster"]["proxy-url"].as_str(), own, "{info}");
    }
}

#[rstest]
#[case::expired(json!({"id-token": "a.b.c", "refresh-token": "r"}), 401)]
#[case::missing(json!({"refresh-token": "r"}), 400)]
fn an_oidc_token_is_renewed_by_kubectl(#[case] config: Value, #[case] code: u16) {
    let server = LoopbackServer::refusing(code, "Unauthorized");
    let user = json!({"auth-provider": {"name": "oidc", "config": config}});
    let (_place, file) = kubeconfig(&json!({"server": format!("http://{}", server.addr)}), &user);
    let renewal = format!("`kubectl --kubeconfig {} --context prod version`", text(&file));
    for words in [
        &["off"][..],
        &["top", "--once"],
        &["advise", "--prometheus-service", "a/b"],
    ] {
        let words = [words, &["--kubeconfig", text(&file), "--context", "prod"]].concat();
        let line = error_line(&words, &[]);
        for part in ["OIDC", "context prod", renewal.as_str()] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    let unnamed = error_line(&["off"], &[("KUBECONFIG", text(&file))]);
    assert!(unnamed.contains("`kubectl version`"), "{unnamed}");
}
