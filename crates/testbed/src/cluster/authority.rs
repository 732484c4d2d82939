//! The cluster's certificate authority: issues the API server's certificate, and a kubeconfig for each user. Only the owner of
//! the cluster can read its files.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use serde_json::{Value, json};

use super::{
    MASTERS,
    command::{KUBELET_CLIENT, Layout},
};
use crate::agent::write_secret;

/// Names of the API server, in pods and on this machine.
const SERVER_NAMES: [&str; 5] = [
    SERVER_NAME,
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// Name that clients verify at whichever address they use.
const SERVER_NAME: &str = "localhost";
/// Address of the Service `kubernetes`.
const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// The authority. Client certificates identify users: the common name is the user, and the organisation is the group. rcgen
/// supports only one organisation.
#[derive(Debug)]
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    certificate: String,
    folder: PathBuf,
    ca_file: PathBuf,
    server: String,
}

impl Authority {
    /// Creates the authority, the API server's certificate and the key for service account tokens.
    pub(super) fn new(layout: &Layout, server: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("headroom-cluster", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().context("make the authority's key")?;
        let issuer = CertifiedIssuer::self_signed(params, key).context("make the authority's certificate")?;
        let certificate = issuer.pem();
        let authority = Self {
            certificate,
            issuer,
            folder: layout.folder().to_owned(),
            ca_file: layout.ca_certificate(),
            server: server.to_owned(),
        };
        write_secret(&authority.ca_file, &authority.certificate)?;

        let server = [layout.server_certificate(), layout.server_key()];
        let addresses = [Ipv4Addr::LOCALHOST, SERVICE];
        authority.server_certificate(("kube-apiserver", None), &SERVER_NAMES, &addresses, &server)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(KUBELET_CLIENT, Some(MASTERS));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        authority.issue(
            &params,
            &layout.kubelet_client_certificate(),
            &layout.kubelet_client_key(),
        )?;

        let key = KeyPair::generate().context("make the key of service accounts")?;
        write_secret(&layout.service_account_key(), &key.serialize_pem())?;
        write_secret(&layout.service_account_public_key(), &key.public_key_pem())?;
        Ok(authority)
    }

    /// Writes a certificate and key of a server with these names and addresses.
    pub(super) fn server_certificate(
        &self,
        (user, group): (&str, Option<&str>),
        names: &[&str],
        addresses: &[Ipv4Addr],
        [certificate, key]: &[PathBuf; 2],
    ) -> Result<()> {
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        let mut params = CertificateParams::new(names).context("name a server")?;
        let addresses = addresses
            .iter()
            .map(|&address| SanType::IpAddress(IpAddr::V4(address)));
        params.subject_alt_names.extend(addresses);
        params.distinguished_name = name(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(&params, certificate, key)
    }

    /// Certificate of the authority, in PEM.
    pub(super) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Writes a kubeconfig for the user, with its key and certificates in files of the same folder.
    pub(super) fn kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let cluster = json!({ "server": self.server, "certificate-authority": self.ca_file });
        self.kubeconfig_named(&stem(user, group), user, group, &cluster)
    }

    /// Like [`Self::kubeconfig`], with another URL of the API server.
    pub(super) fn kubeconfig_via(&self, url: &str, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let stem = format!("{}-via", stem(user, group));
        let cluster =
            json!({ "server": url, "tls-server-name": SERVER_NAME, "certificate-authority": self.ca_file });
        self.kubeconfig_named(&stem, user, group, &cluster)
    }

    fn kubeconfig_named(
        &self,
        stem: &str,
        user: &str,
        group: Option<&str>,
        cluster: &Value,
    ) -> Result<PathBuf> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let [certificate, key, path] =
            ["pem", "key", "kubeconfig"].map(|end| self.folder.join(format!("{stem}.{end}")));
        self.issue(&params, &certificate, &key)?;
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "it", "cluster": cluster }],
            "users": [{ "name": user, "user": { "client-certificate": certificate, "client-key": key } }],
            "contexts": [{ "name": user, "context": { "cluster": "it", "user": user } }],
            "current-context": user,
        });
        write_secret(&path, &format!("{kubeconfig:#}\n"))?;
        Ok(path)
    }

    fn issue(&self, params: &CertificateParams, certificate: &Path, key: &Path) -> Result<()> {
        let pair = KeyPair::generate().context("make a key")?;
        let signed = params
            .signed_by(&pair, &self.issuer)
            .context("sign a certificate")?;
        write_secret(certificate, &signed.pem())?;
        write_secret(key, &pair.serialize_pem())
    }
}

/// Stem of the file names of a user.
fn stem(user: &str, group: Option<&str>) -> String {
    group
        .map_or(user.to_owned(), |group| format!("{user}+{group}"))
        .replace([':', '/'], "-")
}

fn name(user: &str, group: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user);
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name
}
