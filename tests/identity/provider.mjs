// The identity provider of the tests: oidc-provider behind TLS, on a free port of loopback.
//
// The first line of standard input is its configuration as JSON; when it answers, it prints its issuer. A later
// line is a new set of keys, after which it prints its issuer again. It ends with its standard input.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:https';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

console.info = console.error; // standard output is for the issuer alone
const { default: Provider } = await import(
  pathToFileURL(createRequire(`${process.cwd()}/`).resolve('oidc-provider')));

function providerOf(issuer, settings, jwks) {
  const provider = new Provider(issuer, {
    clients: settings.clients,
    jwks,
    cookies: { keys: ['a key of the cookies'] },
    claims: { openid: ['sub'], profile: ['name', 'preferred_username', 'groups'] },
    conformIdTokenClaims: false, // the claims of a scope stand in the id_token, as Keycloak has them
    features: {
      devInteractions: { enabled: true },
      deviceFlow: { enabled: true },
      rpInitiatedLogout: { enabled: true },
    },
    pkce: { required: () => true },
    ttl: { IdToken: 600, AccessToken: 600, AuthorizationCode: 60, DeviceCode: 600, Interaction: 600, Session: 600,
      Grant: 600, RefreshToken: 600 },
    issueRefreshToken: async (ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    findAccount: async (ctx, id) => ({
      accountId: id,
      claims: async () => ({ sub: id, name: id, preferred_username: id, ...settings.accounts[id] }),
    }),
    loadExistingGrant: async (ctx) => { // whoever logs in agrees to what the client requests
      const grant = new ctx.oidc.provider.Grant({
        clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope('openid offline_access profile');
      await grant.save();
      return grant;
    },
  });
  provider.use(async (ctx, next) => {
    await next();
    if (ctx.oidc?.route === 'device_authorization' && ctx.status === 200) {
      ctx.body = { ...ctx.body, interval: 1 }; // OSMO's client needs it
    }
  });
  provider.on('server_error', (ctx, error) => console.error(error));
  return provider.callback();
}

let handle;
let settings;
const server = createServer({}, (request, response) => handle(request, response));
createInterface({ input: process.stdin }).on('line', (line) => {
  if (settings) {
    handle = providerOf(settings.issuer, settings, JSON.parse(line));
    process.stdout.write(`${settings.issuer}\n`);
    return;
  }
  settings = JSON.parse(line);
  server.setSecureContext({ cert: readFileSync(settings.certificate), key: readFileSync(settings.key) });
  server.listen(0, '127.0.0.1', () => {
    settings.issuer = `https://127.0.0.1:${server.address().port}`;
    handle = providerOf(settings.issuer, settings, settings.jwks);
    process.stdout.write(`${settings.issuer}\n`);
  });
}).on('close', () => process.exit(0));
