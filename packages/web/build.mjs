// Puts the player into dist/: the very files that `headrace web` writes beside a bundle, at the version of the Python package.
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs';

const here = new URL('./', import.meta.url);
const source = new URL('../../src/headrace/', here);
const FILES = ['headrace.js', 'tensor.js', 'bundle.js', 'sizes.js', 'headrace.d.ts'];

const { version } = JSON.parse(readFileSync(new URL('package.json', here), 'utf8'));
const [, expected] = readFileSync(new URL('version.py', source), 'utf8').match(/__version__ = "(.+)"/);
if (version !== expected) throw new Error(`package.json has version ${version}, headrace has ${expected}`);

const dist = new URL('dist/', here);
rmSync(dist, { recursive: true, force: true });
mkdirSync(dist);
for (const name of FILES) copyFileSync(new URL(`web/${name}`, source), new URL(name, dist));
