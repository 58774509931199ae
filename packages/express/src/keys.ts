export {
  addressKey,
  all,
  apiKey,
  bearerToken,
  clientIp,
  custom,
  everyone,
  firstOf,
  route,
  secret,
  tenant,
} from '@tollgate/core';
