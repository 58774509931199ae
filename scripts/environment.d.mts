/** See the module. */
export declare const environment: Readonly<Record<string, string | undefined>>;
