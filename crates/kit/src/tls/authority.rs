//! Issues certificates: CAs, serving certificates, and cross certificates between two CAs. All keys are ECDSA P-256.

use std::{
    fmt::{self, Write as _},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use sha2::{Digest as _, Sha256};

use super::{
    TlsError, client,
    pem::{self, PemPair, Validity, memory},
};

/// Tolerated delay of clients' clocks: certificates are valid from this long before they are issued.
pub const SKEW: Duration = Duration::from_secs(60 * 60);

/// Subject of a CA.
const CA_NAME: &str = "headroom CA";
/// Subject of a serving certificate. Clients verify only its alternative names.
const LEAF_NAME: &str = "headroom";

/// A CA that can issue certificates.
pub struct Authority {
    pem: PemPair,
    validity: Validity,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// Creates a CA that is valid for `lifetime` from `now`. Its subject is unique, so that verifiers never confuse two
    /// CAs, and its path length is 1, so that a cross certificate below it verifies.
    ///
    /// # Errors
    /// No random number, or a time that X.509 cannot express.
    pub fn create(now: SystemTime, lifetime: Duration) -> Result<Self, TlsError> {
        let key = KeyPair::generate().map_err(TlsError::Issue)?;
        let params = ca_params(&unique_name(&key), 1, (now - SKEW, now + lifetime))?;
        let certificate = params.self_signed(&key).map_err(TlsError::Issue)?;
        Self::load(&PemPair {
            cert: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Loads a CA.
    ///
    /// # Errors
    /// Malformed PEM, or a key of another certificate.
    pub fn load(pair: &PemPair) -> Result<Self, TlsError> {
        let (_, validity) = pem::certified(&pair.into(), &memory())?;
        let key = KeyPair::from_pem(&pair.key).map_err(TlsError::Issue)?;
        Ok(Self {
            pem: pair.clone(),
            validity,
            issuer: Issuer::from_ca_cert_der(&first(&pair.cert)?, key).map_err(TlsError::Issue)?,
        })
    }

    /// The CA's certificate and key.
    pub const fn pem(&self) -> &PemPair {
        &self.pem
    }

    /// Issues a serving certificate for `names` (DNS names and IP addresses), valid for `lifetime` from `now` and at most
    /// as long as the CA.
    ///
    /// # Errors
    /// An invalid name.
    pub fn issue(&self, names: &[String], now: SystemTime, lifetime: Duration) -> Result<PemPair, TlsError> {
        for name in names {
            client::server_name(name)?;
        }
        let mut params = CertificateParams::new(names).map_err(TlsError::Issue)?;
        params.distinguished_name.push(DnType::CommonName, LEAF_NAME);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = (now - SKEW).into();
        params.not_after = (now + lifetime).min(self.end()).into();
        let key = KeyPair::generate().map_err(TlsError::Issue)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(TlsError::Issue)?;
        Ok(PemPair {
            cert: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Issues a cross certificate: subject and key of `next`, signed by this CA. A client that trusts only this CA
    /// verifies certificates of `next` through it. It is valid at most as long as each of both.
    ///
    /// # Errors
    /// The library refuses to sign.
    pub fn cross_sign(&self, next: &Self, now: SystemTime) -> Result<String, TlsError> {
        let until = self.end().min(next.end());
        let mut params = ca_params(&unique_name(next.issuer.key()), 0, (now - SKEW, until))?;
        params.use_authority_key_identifier_extension = true;
        let certificate = params
            .signed_by(next.issuer.key(), &self.issuer)
            .map_err(TlsError::Issue)?;
        Ok(certificate.pem())
    }

    fn end(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.validity.to.unsigned_abs())
    }
}

/// First and last second of the first certificate in PEM text, since the Unix epoch.
///
/// # Errors
/// Malformed PEM, or certificates out of order.
pub fn validity_s(pem: &str) -> Result<(i64, i64), TlsError> {
    let Validity { from, to } = pem::validity(pem.as_bytes(), &memory().cert)?;
    Ok((from, to))
}

/// Last second at which every certificate in PEM text is valid, in whatever order they are: the end of a bundle of CAs.
///
/// # Errors
/// Malformed PEM.
pub fn first_end_s(pem: &str) -> Result<i64, TlsError> {
    let ends = pem::certificates(pem.as_bytes(), &memory().cert)?;
    let ends = ends
        .iter()
        .map(|der| pem::validity_of(der).map(|validity| validity.to));
    let ends: Vec<i64> = ends.collect::<Result<_, _>>()?;
    Ok(ends.into_iter().min().unwrap_or_default())
}

/// Checks that the key of a pair belongs to its certificate, in any encoding that servers accept.
///
/// # Errors
/// It does not, or the PEM is malformed.
pub fn check_pair(pair: &PemPair) -> Result<(), TlsError> {
    pem::certified(&pair.into(), &memory()).map(|_certified| ())
}

/// Time at which a certificate is renewed: after about two thirds of its life, up to a tenth of its life earlier. The
/// serial number decides how much, so every replica computes the same time, and installations of one day spread.
///
/// # Errors
/// Malformed PEM, or certificates out of order.
pub fn renewal_s(pem: &str) -> Result<i64, TlsError> {
    let (from, to) = validity_s(pem)?;
    let certificate = first(pem)?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&certificate).map_err(|source| TlsError::Certificate {
            path: memory().cert,
            position: 1,
            source: source.into(),
        })?;
    let last = parsed.raw_serial().last().copied().unwrap_or_default();
    let life = to.saturating_sub(from);
    let earlier = life / 10 * i64::from(last) / i64::from(u8::MAX);
    Ok(from.saturating_add(life / 3 * 2).saturating_sub(earlier))
}

/// SHA-256 of a text, such as a bundle of CAs, in 64 lower-case hexadecimal digits.
pub fn fingerprint(text: &[u8]) -> String {
    let digest = Sha256::digest(text);
    digest.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a String never fails.
        let _written = write!(digits, "{byte:02x}");
        digits
    })
}

fn ca_params(
    name: &str,
    path_length: u8,
    (from, to): (SystemTime, SystemTime),
) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::new(Vec::new()).map_err(TlsError::Issue)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(path_length));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.not_before = from.into();
    params.not_after = to.into();
    Ok(params)
}

/// Name of a CA, with four bytes of its public key.
fn unique_name(key: &KeyPair) -> String {
    let raw = key.public_key_raw();
    let tail = raw
        .last_chunk::<4>()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes));
    format!("{CA_NAME} {tail:08x}")
}

fn first(pem: &str) -> Result<CertificateDer<'static>, TlsError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|source| TlsError::Pem {
        path: memory().cert,
        what: "certificate",
        source,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::tls::verify_chain;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const YEAR: Duration = DAY.saturating_mul(365);

    fn start() -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * 20_000
    }

    fn names() -> Vec<String> {
        vec!["a.svc".to_owned()]
    }

    #[rstest]
    #[case::old_leaf_old_bundle(false, false, false, true)]
    #[case::old_leaf_both(false, false, true, true)]
    #[case::new_leaf_old_bundle(true, true, false, true)]
    #[case::new_leaf_both(true, true, true, true)]
    #[case::new_leaf_without_cross_old_bundle(true, false, false, false)]
    fn each_leaf_of_a_rotation_verifies_with_each_bundle(
        #[case] is_new: bool,
        #[case] has_cross: bool,
        #[case] is_both: bool,
        #[case] verifies: bool,
    ) {
        let now = start();
        let (old, new) = (
            Authority::create(now, YEAR).unwrap(),
            Authority::create(now, YEAR).unwrap(),
        );
        let issuer = if is_new { &new } else { &old };
        let mut chain = issuer.issue(&names(), now, DAY).unwrap().cert;
        if has_cross {
            chain.push_str(&old.cross_sign(&new, now).unwrap());
        }
        let mut bundle = old.pem().cert.clone();
        if is_both {
            bundle.push_str(&new.pem().cert);
        }
        let verified = verify_chain(chain.as_bytes(), bundle.as_bytes(), "a.svc", now);
        assert_eq!(verified.is_ok(), verifies, "{verified:?}");
        if is_new {
            let new_only = verify_chain(chain.as_bytes(), new.pem().cert.as_bytes(), "a.svc", now);
            new_only.unwrap();
        }
    }

    #[test]
    fn certificates_never_outlive_their_ca() {
        let now = start();
        let ca = Authority::create(now, DAY).unwrap();
        let leaf = ca.issue(&names(), now, YEAR).unwrap();
        assert_eq!(
            validity_s(&leaf.cert).unwrap().1,
            validity_s(&ca.pem().cert).unwrap().1
        );
        let next = Authority::create(now, YEAR).unwrap();
        let cross = ca.cross_sign(&next, now).unwrap();
        assert_eq!(
            validity_s(&cross).unwrap().1,
            validity_s(&ca.pem().cert).unwrap().1
        );
    }

    #[test]
    fn renewal_is_between_56_and_67_percent_of_the_life() {
        let now = start();
        let ca = Authority::create(now, YEAR).unwrap();
        let mut times = std::collections::BTreeSet::new();
        for _ in 0..40 {
            let leaf = ca.issue(&names(), now, DAY * 90).unwrap().cert;
            let (from, to) = validity_s(&leaf).unwrap();
            let part = (renewal_s(&leaf).unwrap() - from) * 1_000 / (to - from);
            assert!((566..=667).contains(&part), "{part}");
            assert_eq!(renewal_s(&leaf).unwrap(), renewal_s(&leaf).unwrap());
            times.insert(part);
        }
        assert!(times.len() > 10, "{times:?}");
    }

    #[test]
    fn end_of_a_bundle_is_that_of_its_first_ca_to_end() {
        let now = start();
        let [short, long] =
            [DAY * 10, YEAR].map(|life| Authority::create(now, life).unwrap().pem().cert.clone());
        let end = validity_s(&short).unwrap().1;
        for bundle in [short.clone() + &long, long + &short, short.clone()] {
            assert_eq!(first_end_s(&bundle).unwrap(), end);
        }
        assert!(first_end_s("").is_err());
    }

    #[test]
    fn a_loaded_ca_issues_like_the_created_one() {
        let now = start();
        let created = Authority::create(now, YEAR).unwrap();
        let loaded = Authority::load(created.pem()).unwrap();
        let leaf = loaded.issue(&names(), now, DAY).unwrap();
        verify_chain(leaf.cert.as_bytes(), created.pem().cert.as_bytes(), "a.svc", now).unwrap();
        let other = Authority::create(now, YEAR).unwrap();
        let mixed = PemPair {
            key: other.pem().key.clone(),
            ..created.pem().clone()
        };
        assert!(matches!(Authority::load(&mixed), Err(TlsError::Mismatch { .. })));
        assert!(matches!(
            created.issue(&["not a name".to_owned()], now, DAY),
            Err(TlsError::Name { .. })
        ));
    }
}
