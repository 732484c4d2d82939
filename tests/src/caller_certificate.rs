//! A client certificate for the API server, by which the webhook recognizes it.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{fs, path::Path};

use headroom_testbed::cluster::ClusterOptions;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use serde_json::json;

/// Writes a CA, a client certificate of it for the API server, and the API server's settings that present it to all
/// webhooks.
pub fn create(folder: &Path) -> ClusterOptions {
    let path = |name: &str| folder.join(name);
    let write = |name: &str, text: String| fs::write(path(name), text).expect("write");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let ca = CertifiedIssuer::self_signed(params, key).expect("a CA");
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &ca).expect("a certificate");
    write("ca.pem", ca.pem());
    write("client.pem", certificate.pem());
    write("client.key", key.serialize_pem());
    let user = json!({"client-certificate": path("client.pem"), "client-key": path("client.key")});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}],
    });
    write("kubeconfig.json", kubeconfig.to_string());
    let plugin = |name: &str| {
        json!({"name": name, "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": path("kubeconfig.json"),
        }})
    };
    let plugins = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"].map(plugin);
    let admission = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins,
    });
    write("admission.json", admission.to_string());
    let file = path("admission.json");
    ClusterOptions {
        apiserver_flags: vec![format!("--admission-control-config-file={}", file.display())],
        ..ClusterOptions::default()
    }
}

/// Flags of a webhook that recognizes the API server by the certificate in that folder.
pub fn flags(folder: &Path) -> [String; 3] {
    [
        "--callers=client-certificate".to_owned(),
        "--caller-names=kube-apiserver".to_owned(),
        format!("--tls-client-ca-file={}", folder.join("ca.pem").display()),
    ]
}
