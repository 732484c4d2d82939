//! [`Proxy`]: the proxy to a server, from the kubeconfig or from the environment by the rules of Go programs.

mod exceptions;

use std::{env, fmt};

use http::{HeaderValue, Uri, uri::Scheme};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use self::exceptions::{is_excepted, is_loopback};
use crate::error::Error;

/// A proxy with its credential, which is not printed.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    intercept: Intercept,
    /// The variable or field that contains the URL.
    origin: String,
}

/// Protocol between this program and a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyProtocol {
    Http,
    Socks,
}

impl Proxy {
    /// Proxy in the field `proxy-url` of a cluster. As in kubectl, it takes precedence over the environment, and
    /// NO_PROXY does not apply to it.
    ///
    /// # Errors
    /// The value is not the URL of a supported proxy.
    pub(super) fn of_cluster(url: &str, cluster: &str) -> Result<Self, Error> {
        Self::read(url, format!("proxy-url of cluster {cluster} in the kubeconfig"))
    }

    /// Proxy that the environment names for a server, if any: HTTPS_PROXY or HTTP_PROXY by the scheme, except for
    /// loopback servers and those in NO_PROXY. These are the rules of Go's package `httpproxy`, which kubectl uses.
    ///
    /// # Errors
    /// The variable is not the URL of a supported proxy. Go ignores such a value and connects directly.
    pub(crate) fn of_environment(server: &Uri) -> Result<Option<Self>, Error> {
        Self::select(server, |name| {
            Some(env::var_os(name)?.to_string_lossy().into_owned())
        })
    }

    fn select(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Error> {
        let set = |names: [&'static str; 2]| {
            let mut values = names.into_iter().filter_map(|name| Some((name, variable(name)?)));
            values.find(|(_, value)| !value.is_empty())
        };
        let is_tls = server.scheme() == Some(&Scheme::HTTPS);
        let (names, default_port) = if is_tls {
            (["HTTPS_PROXY", "https_proxy"], 443)
        } else {
            (["HTTP_PROXY", "http_proxy"], 80)
        };
        let (Some(host), Some((name, url))) = (server.host(), set(names)) else {
            return Ok(None);
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_lowercase();
        let port = server.port_u16().unwrap_or(default_port);
        let exceptions = set(["NO_PROXY", "no_proxy"]).map(|(_, value)| value);
        if is_loopback(&host) || is_excepted(&exceptions.unwrap_or_default(), &host, port) {
            return Ok(None);
        }
        // In the environment, a proxy without a scheme is an HTTP proxy.
        let with_scheme = if url.contains("://") {
            url
        } else {
            format!("http://{url}")
        };
        Self::read(&with_scheme, name.to_owned()).map(Some)
    }

    fn read(url: &str, origin: String) -> Result<Self, Error> {
        let refuse = |reason| Error::BadProxy {
            origin: origin.clone(),
            value: without_login(url),
            reason,
        };
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if !matches!(scheme, "http" | "https" | "socks5" | "socks5h") {
            return Err(refuse("its scheme is not http, https or socks5"));
        }
        // The matcher decodes the login. It matches any server, because it has no exceptions.
        let matcher = Matcher::builder().all(url.to_owned()).build();
        let intercept = matcher.intercept(&Uri::from_static("http://server"));
        let Some(intercept) =
            intercept.filter(|found| found.uri().host().is_some_and(|host| !host.is_empty()))
        else {
            return Err(refuse("it is not a URL such as http://proxy.example:3128"));
        };
        Ok(Self { intercept, origin })
    }

    pub(super) fn protocol(&self) -> ProxyProtocol {
        match self.intercept.uri().scheme_str() {
            Some("http" | "https") => ProxyProtocol::Http,
            Some(_) | None => ProxyProtocol::Socks,
        }
    }

    /// True if the connection to the proxy has TLS.
    pub(super) fn has_tls(&self) -> bool {
        self.intercept.uri().scheme() == Some(&Scheme::HTTPS)
    }

    /// URL of the connection to the proxy. A SOCKS proxy has no TLS, and port 1080 by default.
    pub(super) fn url(&self) -> Result<Uri, http::Error> {
        let url = self.intercept.uri();
        if self.protocol() == ProxyProtocol::Http {
            return Ok(url.clone());
        }
        let host = url.host().unwrap_or_default();
        let port = url.port_u16().unwrap_or(1080);
        let socket = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(format!("{host}:{port}"));
        socket.path_and_query("/").build()
    }

    /// Value of `Proxy-Authorization` for an HTTP proxy.
    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.intercept.basic_auth()
    }

    /// User and password for a SOCKS proxy.
    pub(super) fn login(&self) -> Option<(&str, &str)> {
        self.intercept.raw_auth()
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.intercept.uri();
        let (scheme, authority) = (url.scheme_str().unwrap_or_default(), url.authority());
        let authority = authority.map_or("", |authority| authority.as_str());
        write!(f, "the proxy {scheme}://{authority} ({})", self.origin)
    }
}

/// The URL with `***` as user and password, also if it is malformed.
pub(crate) fn without_login(url: &str) -> String {
    let (scheme, rest) = url
        .split_once("://")
        .map_or(("", url), |(scheme, rest)| (scheme, rest));
    let Some((_, host)) = rest.rsplit_once('@') else {
        return url.to_owned();
    };
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}***@{host}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn proxy_of(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        };
        let proxy = Proxy::select(&server.parse().unwrap(), variable).unwrap()?;
        Some(proxy.to_string())
    }

    #[rstest]
    #[case::by_scheme("https://a", &[("HTTPS_PROXY", "http://p:1"), ("HTTP_PROXY", "http://q")], Some("the proxy http://p:1 (HTTPS_PROXY)"))]
    #[case::no_fallback("http://a", &[("HTTPS_PROXY", "http://p:1")], None)]
    #[case::upper_first("https://a", &[("https_proxy", "http://q"), ("HTTPS_PROXY", "http://p:1")], Some("the proxy http://p:1 (HTTPS_PROXY)"))]
    #[case::empty_counts_as_unset("https://a", &[("https_proxy", "p:1"), ("HTTPS_PROXY", "")], Some("the proxy http://p:1 (https_proxy)"))]
    #[case::login("https://a", &[("HTTPS_PROXY", "socks5h://me:pw@p:1")], Some("the proxy socks5h://p:1 (HTTPS_PROXY)"))]
    #[case::loopback("https://[::1]:6443", &[("HTTPS_PROXY", "http://p:1")], None)]
    #[case::excepted("https://[2001:DB8::1]", &[("HTTPS_PROXY", "http://p:1"), ("no_proxy", "2001:db8::1")], None)]
    #[case::default_port("https://a.b", &[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", "a.b:443")], None)]
    #[case::default_port_without_tls("http://a.b", &[("HTTP_PROXY", "http://p:1"), ("NO_PROXY", "a.b:80")], None)]
    fn a_server_has_the_proxy_of_its_scheme(
        #[case] server: &str,
        #[case] variables: &[(&str, &str)],
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(proxy_of(server, variables).as_deref(), expected);
    }

    #[rstest]
    #[case("socks5://p", "http://p:1080/")]
    #[case("socks5://[::1]:9", "http://[::1]:9/")]
    #[case("https://p", "https://p/")]
    fn a_socks_proxy_has_a_default_port(#[case] url: &str, #[case] expected: &str) {
        let proxy = Proxy::of_cluster(url, "c").unwrap();
        assert_eq!(proxy.url().unwrap().to_string(), expected);
    }

    #[test]
    fn a_login_is_never_printed() {
        let proxy = Proxy::of_cluster("http://me:s3cret@p:1", "c").unwrap();
        assert!(!format!("{proxy} {proxy:?}").contains("s3cret"), "{proxy:?}");
        for (url, shown) in [
            ("ftp://me:s3@cret@p:1", "ftp://***@p:1"),
            ("me:s3cret@p", "***@p"),
            ("http://p", "http://p"),
        ] {
            assert_eq!(without_login(url), shown);
        }
    }
}
