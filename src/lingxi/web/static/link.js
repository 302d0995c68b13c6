// The secret of a sign-in link stands behind `#`: into the form, and out of the address and the history.
const secret = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
document.getElementById("link").value = secret;
document.getElementById("problem").hidden = Boolean(secret);
document.getElementById("go").disabled = !secret;
document.getElementById("go").focus();
